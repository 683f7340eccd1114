#include "exec/host/paced_ring.h"

#include <sys/prctl.h>

namespace penstock::exec {

PacedRing::PacedRing(const HostBackendOptions& options)
    : options_(options),
      slots_(CopyRing::kBytes, "the ring of pinned memory"),
      ring_(*this, slots_.data(), 1),
      thread_([this](const std::stop_token& token) { serve(token); }) {}

void PacedRing::begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool upload) {
  const std::lock_guard lock(mutex_);
  begun_.push_back({slot, to, from, bytes, upload});
  ++pending_[slot];
  wake_.notify_all();
}

void PacedRing::wait(int slot) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return pending_[slot] == 0; });
}

void PacedRing::serve(const std::stop_token& token) {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // paced copies sleep to the microsecond
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, token, [this] { return !begun_.empty(); })) {
    const Transfer transfer = begun_.front();
    begun_.pop_front();
    lock.unlock();
    paced_copy(transfer.to, transfer.from, transfer.bytes,
               transfer.upload ? options_.h2d_bytes_per_second : options_.d2h_bytes_per_second);
    lock.lock();
    --pending_[transfer.slot];
    wake_.notify_all();
  }
}

}  // namespace penstock::exec
