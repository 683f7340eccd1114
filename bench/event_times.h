// What the benches of the GPU share: times of work on a stream, by its events, and random data to work on.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/cuda/device_memory.h"
#include "exec/cuda/error.h"
#include "exec/numerics/bf16.h"
#include "shared/random.h"

namespace penstock::exec {

/// Device memory full of random bf16: a block of a length coprime to row lengths, over and over.
inline DeviceMemory random_memory(std::int64_t elements, float deviation) {
  constexpr std::int64_t kBlock = 1000003;
  std::vector<std::uint16_t> block(kBlock);
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = round_to_bf16(deviation * random_normal(random_key(1, "bench"), i));
  DeviceMemory memory(2 * elements);
  for (std::int64_t at = 0; at < elements; at += kBlock)
    memory.upload(block.data(), 2 * std::min(kBlock, elements - at), 2 * at);
  return memory;
}

/// A stream with two events, for as long as the program runs.
class EventTimes {
 public:
  struct Milliseconds {
    double median = 0;
    double spread = 0;  // most less least, as a part of the median
  };

  EventTimes() {
    PENSTOCK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    PENSTOCK_CUDA(cudaEventCreate(&start_));
    PENSTOCK_CUDA(cudaEventCreate(&end_));
  }

  cudaStream_t stream() const { return stream_; }

  /// Of an odd number of runs, after 3 of warm-up.
  Milliseconds of(int runs, const std::function<void()>& run) const {
    for (int i = 0; i < 3; ++i) run();
    std::vector<float> times(static_cast<std::size_t>(runs));
    for (float& milliseconds : times) {
      PENSTOCK_CUDA(cudaEventRecord(start_, stream_));
      run();
      PENSTOCK_CUDA(cudaEventRecord(end_, stream_));
      PENSTOCK_CUDA(cudaEventSynchronize(end_));
      PENSTOCK_CUDA(cudaEventElapsedTime(&milliseconds, start_, end_));
    }
    std::sort(times.begin(), times.end());
    const double median = static_cast<double>(times[times.size() / 2]);
    return {median, static_cast<double>(times.back() - times.front()) / median};
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

}  // namespace penstock::exec
