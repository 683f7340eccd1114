#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "exec/store/io_queue.h"

namespace penstock::exec {
namespace {

/// The kernel's limit of one registered range.
constexpr std::size_t kMostPinned = std::size_t{1} << 30;

class UringQueue : public IoQueue {
 public:
  explicit UringQueue(int depth) : depth_(depth) {
    if (const int error = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0); error < 0)
      throw std::system_error(-error, std::generic_category(), "io_uring");
    // A filter may let a ring be made and not be used.
    try {
      io_uring_prep_nop(io_uring_get_sqe(&ring_));
      send();
      wait();
    } catch (...) {
      io_uring_queue_exit(&ring_);
      throw;
    }
  }
  ~UringQueue() override { io_uring_queue_exit(&ring_); }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  std::string_view name() const override { return "io_uring"; }
  int depth() const override { return depth_; }

  void submit(const Transfer& transfer) override {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) throw std::logic_error("io_uring: more transfers in flight than its depth");
    const auto bytes = static_cast<unsigned>(transfer.bytes);
    const auto offset = static_cast<__u64>(transfer.offset);
    if (const int index = pinned_range(transfer); index >= 0) {
      if (transfer.is_write)
        io_uring_prep_write_fixed(entry, transfer.file, transfer.memory, bytes, offset, index);
      else
        io_uring_prep_read_fixed(entry, transfer.file, transfer.memory, bytes, offset, index);
    } else if (transfer.is_write) {
      io_uring_prep_write(entry, transfer.file, transfer.memory, bytes, offset);
    } else {
      io_uring_prep_read(entry, transfer.file, transfer.memory, bytes, offset);
    }
    io_uring_sqe_set_data64(entry, transfer.tag);
    send();
  }

  Transferred wait() final {
    io_uring_cqe* entry = nullptr;
    int error = 0;
    do error = io_uring_wait_cqe(&ring_, &entry);
    while (error == -EINTR || error == -EAGAIN);
    if (error < 0) throw std::system_error(-error, std::generic_category(), "io_uring");
    const Transferred done{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

  bool pin(std::span<const std::span<std::byte>> ranges) override {
    std::vector<iovec> pieces;
    for (std::span<std::byte> range : ranges)
      for (; !range.empty(); range = range.subspan(pieces.back().iov_len))
        pieces.push_back({range.data(), std::min(range.size(), kMostPinned)});
    if (!pinned_.empty()) io_uring_unregister_buffers(&ring_);
    pinned_.clear();
    if (pieces.empty() || io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size())) != 0)
      return false;
    pinned_ = std::move(pieces);
    return true;
  }

 private:
  void send() {
    for (int sent = 0; sent < 1;) {
      sent = io_uring_submit(&ring_);
      if (sent < 0 && sent != -EINTR && sent != -EAGAIN && sent != -EBUSY)
        throw std::system_error(-sent, std::generic_category(), "io_uring");
    }
  }

  /// Index of the registered range in which all of it lies, -1 if there is none.
  int pinned_range(const Transfer& transfer) const {
    for (std::size_t i = 0; i < pinned_.size(); ++i) {
      const auto* const begin = static_cast<const std::byte*>(pinned_[i].iov_base);
      if (transfer.memory >= begin && transfer.memory + transfer.bytes <= begin + pinned_[i].iov_len)
        return static_cast<int>(i);
    }
    return -1;
  }

  int depth_;
  io_uring ring_{};
  std::vector<iovec> pinned_;
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(int depth) {
  try {
    return std::make_unique<UringQueue>(depth);
  } catch (const std::system_error&) {
    return nullptr;
  }
}

std::unique_ptr<IoQueue> make_io_queue(int depth) {
  if (std::unique_ptr<IoQueue> queue = make_uring_queue(depth)) return queue;
  return make_thread_queue(depth);
}

}  // namespace penstock::exec
