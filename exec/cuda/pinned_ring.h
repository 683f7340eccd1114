// A ring of pinned slots on a stream: how a lane copies memory that is not pinned. Include only where the CUDA headers
// are at hand.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "exec/runtime/bound_op.h"
#include "exec/runtime/copy_ring.h"

namespace penstock::exec {

class PinnedRing : private RingLink {
 public:
  /// Takes the slots, and makes its transfers on `stream`. `threads` of the host move pieces. Throws DoesNotFit if the
  /// slots cannot be pinned.
  PinnedRing(cudaStream_t stream, int threads);
  ~PinnedRing() override;
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  /// Blocks until the bytes are there. REQUIRES: the calling thread's device is the stream's.
  void copy(const BoundCopy& copy);
  void upload(std::byte* to_gpu, const std::byte* from, std::int64_t bytes) { ring_.upload(to_gpu, from, bytes); }
  void download(std::byte* to, const std::byte* from_gpu, std::int64_t bytes) { ring_.download(to, from_gpu, bytes); }
  /// Blocks until all that was begun on the stream has ended; the thread sleeps.
  void wait_for_stream();

 private:
  void begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool upload) override;
  void wait(int slot) override;
  static std::byte* pinned_slots();

  cudaStream_t stream_;
  int device_ = 0;  // of the threads that help
  std::byte* slots_;
  cudaEvent_t ended_[kRingSlots] = {};
  CopyRing ring_;
};

}  // namespace penstock::exec
