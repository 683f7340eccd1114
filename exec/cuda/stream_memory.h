// What host code shares with streams: pinned memory, and waits and writes of 32-bit words in stream order. Include only
// where the CUDA headers are at hand.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "exec/cuda/error.h"

namespace penstock::exec {

/// Host memory that the device reads and writes at full speed while this lives.
class Registration {
 public:
  Registration() = default;
  Registration(void* data, std::size_t bytes) : data_(data) {
    PENSTOCK_CUDA(cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  }
  ~Registration() {
    if (data_ != nullptr) cudaHostUnregister(data_);
  }
  Registration(Registration&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

 private:
  void* data_ = nullptr;
};

class StreamHandle {
 public:
  StreamHandle() { PENSTOCK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~StreamHandle() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  StreamHandle(StreamHandle&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  StreamHandle& operator=(StreamHandle&&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// The driver's stream memory operations, looked up at run time so that the program starts without a driver.
struct StreamMemoryOps {
  PFN_cuStreamWaitValue32_v11070 wait = nullptr;
  PFN_cuStreamWriteValue32_v11070 write = nullptr;

  static StreamMemoryOps load() {
    StreamMemoryOps ops;
    ops.wait = reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(find("cuStreamWaitValue32"));
    ops.write = reinterpret_cast<PFN_cuStreamWriteValue32_v11070>(find("cuStreamWriteValue32"));
    return ops;
  }

 private:
  static void* find(const char* name) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    PENSTOCK_CUDA(cudaGetDriverEntryPointByVersion(name, &entry, 13000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || entry == nullptr)
      throw std::runtime_error(std::string("the driver has no ") + name +
                               ": it is older than CUDA 13, install a newer one");
    return entry;
  }
};

inline void check_driver(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(what) + ": driver error " + std::to_string(static_cast<int>(result)));
}

}  // namespace penstock::exec
