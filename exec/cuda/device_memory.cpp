#include "exec/cuda/device_memory.h"

#include <utility>

#include "exec/cuda/error.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

}  // namespace

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count > 0 ? "" : "no CUDA device";
}

std::string device_description() {
  int device = 0, driver = 0, runtime = 0;
  cudaDeviceProp properties{};
  PENSTOCK_CUDA(cudaGetDevice(&device));
  PENSTOCK_CUDA(cudaGetDeviceProperties(&properties, device));
  PENSTOCK_CUDA(cudaDriverGetVersion(&driver));
  PENSTOCK_CUDA(cudaRuntimeGetVersion(&runtime));
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major) + std::to_string(properties.minor) +
         ", driver " + version(driver) + ", runtime " + version(runtime);
}

DeviceMemory::DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // else the next checked launch would report it again
    std::size_t free = 0, total = 0;
    PENSTOCK_CUDA(cudaMemGetInfo(&free, &total));
    throw DoesNotFit("device memory: " + std::to_string(bytes) + " bytes asked for, " + std::to_string(free) + " of " +
                     std::to_string(total) + " are free");
  }
  PENSTOCK_CUDA(error);
  data_ = static_cast<std::byte*>(data);
}

DeviceMemory::~DeviceMemory() {
  if (data_) cudaFree(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void DeviceMemory::upload(const void* from, std::int64_t bytes, std::int64_t offset) {
  PENSTOCK_CUDA(cudaMemcpy(data_ + offset, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice));
}

void DeviceMemory::download(void* to, std::int64_t bytes, std::int64_t offset) const {
  PENSTOCK_CUDA(cudaMemcpy(to, data_ + offset, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost));
}

void DeviceMemory::fill(int byte) { PENSTOCK_CUDA(cudaMemset(data_, byte, static_cast<std::size_t>(bytes_))); }

void synchronize_device() { PENSTOCK_CUDA(cudaDeviceSynchronize()); }

}  // namespace penstock::exec
