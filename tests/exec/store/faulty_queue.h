// A queue whose transfers fail as told: the n-th of those that it gets, counted from 0.
#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "exec/store/io_queue.h"

namespace penstock::exec {

enum class IoFault {
  short_transfer,  // half of it is moved
  nothing,         // 0: the file ends
  less_than_block,
  io_error,
  no_space,
  again,     // nothing is moved, to be asked for again
  bit_flip,  // moved, and one bit is another one at the other end
};

class FaultyQueue : public IoQueue {
 public:
  FaultyQueue(std::unique_ptr<IoQueue> inner, std::map<int, IoFault> faults, std::function<void(int)> before_wait = {})
      : inner_(std::move(inner)), faults_(std::move(faults)), before_wait_(std::move(before_wait)) {}

  std::string_view name() const override { return "faulty"; }
  int depth() const override { return inner_->depth(); }
  void submit(const Transfer& transfer) override {
    Transfer asked = transfer;
    if (const auto fault = faults_.find(submitted_); fault != faults_.end()) {
      under_way_[transfer.tag] = {fault->second, transfer};
      if (fault->second == IoFault::short_transfer) asked.bytes = asked.bytes / 8192 * 4096;
      if (asked.bytes == 0) asked.bytes = transfer.bytes;
      if (fault->second == IoFault::bit_flip && transfer.is_write) flip(transfer);
    }
    ++submitted_;
    inner_->submit(asked);
  }
  Transferred wait() override {
    if (before_wait_) before_wait_(submitted_);
    Transferred done = inner_->wait();
    const auto found = under_way_.find(done.tag);
    if (found == under_way_.end()) return done;
    const auto [fault, transfer] = found->second;
    under_way_.erase(found);
    switch (fault) {
      case IoFault::short_transfer: break;
      case IoFault::nothing: done.result = 0; break;
      case IoFault::less_than_block: done.result = 100; break;
      case IoFault::io_error: done.result = -EIO; break;
      case IoFault::no_space: done.result = -ENOSPC; break;
      case IoFault::again: done.result = -EAGAIN; break;
      case IoFault::bit_flip: flip(transfer); break;
    }
    return done;
  }
  bool pin(std::span<const std::span<std::byte>> ranges) override { return inner_->pin(ranges); }
  int submitted() const { return submitted_; }

 private:
  static void flip(const Transfer& transfer) { transfer.memory[transfer.bytes / 2] ^= std::byte{16}; }

  std::unique_ptr<IoQueue> inner_;
  std::map<int, IoFault> faults_;
  std::function<void(int)> before_wait_;
  std::map<std::uint64_t, std::pair<IoFault, Transfer>> under_way_;  // by tag
  int submitted_ = 0;
};

}  // namespace penstock::exec
