// Device memory with an owner, and the few runtime calls that host code needs around it. All calls here are
// synchronous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "exec/cuda/stream.h"

namespace penstock::exec {

/// Empty if there is a device, else why there is none ("no CUDA-capable device is detected").
std::string why_no_device();

/// "NVIDIA H200, sm_90, driver 13.0, runtime 13.0".
std::string device_description();

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws DoesNotFit with what is free if the device has no room. Aligned to 256 bytes.
  explicit DeviceMemory(std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  void upload(const void* from, std::int64_t bytes, std::int64_t offset = 0);
  void download(void* to, std::int64_t bytes, std::int64_t offset = 0) const;
  void fill(int byte);

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Blocks until all work of the device is done; throws what it failed with.
void synchronize_device();

}  // namespace penstock::exec
