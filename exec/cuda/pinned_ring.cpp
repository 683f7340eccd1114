#include "exec/cuda/pinned_ring.h"

#include <fmt/format.h>

#include "exec/cuda/error.h"
#include "shared/error.h"
#include "shared/units.h"

namespace penstock::exec {

std::byte* PinnedRing::pinned_slots() {
  void* slots = nullptr;
  if (const cudaError_t error = cudaHostAlloc(&slots, CopyRing::kBytes, cudaHostAllocPortable); error != cudaSuccess) {
    cudaGetLastError();  // else the next checked launch would report it again
    throw DoesNotFit(fmt::format("a ring of {} of pinned memory cannot be had: {}",
                                 format_bytes(static_cast<double>(CopyRing::kBytes)), cudaGetErrorString(error)));
  }
  return static_cast<std::byte*>(slots);
}

PinnedRing::PinnedRing(cudaStream_t stream, int threads)
    : stream_(stream), slots_(pinned_slots()), ring_(*this, slots_, threads) {
  cudaGetDevice(&device_);
  for (cudaEvent_t& event : ended_)
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync);  // 0 if it fails: begin says so
}

PinnedRing::~PinnedRing() {
  cudaStreamSynchronize(stream_);  // after an error a transfer may be under way
  for (cudaEvent_t event : ended_)
    if (event != nullptr) cudaEventDestroy(event);
  cudaFreeHost(slots_);
}

void PinnedRing::copy(const BoundCopy& copy) {
  if (copy.to_tier == TierKind::hbm)
    upload(copy.to.address(), copy.from.address(), copy.from.bytes);
  else
    download(copy.to.address(), copy.from.address(), copy.from.bytes);
}

void PinnedRing::begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool upload) {
  PENSTOCK_CUDA(cudaSetDevice(device_));
  PENSTOCK_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                                upload ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream_));
  PENSTOCK_CUDA(cudaEventRecord(ended_[slot], stream_));
}

void PinnedRing::wait_for_stream() {
  PENSTOCK_CUDA(cudaEventRecord(ended_[0], stream_));
  wait(0);
}

void PinnedRing::wait(int slot) {
  PENSTOCK_CUDA(cudaSetDevice(device_));
  PENSTOCK_CUDA(cudaEventSynchronize(ended_[slot]));
}

}  // namespace penstock::exec
