// The CUDA backend behind one header: backend.cpp where the build has CUDA, backend_missing.cpp where it has not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/runtime/backend.h"

namespace penstock::exec {

struct CudaBackendOptions {
  int device = 0;
  bool deterministic = true;         // attention backward; false: faster, and bits differ from run to run
  std::int64_t hbm_limit_bytes = 0;  // bounds context, modules and arenas together; 0 = the device's memory
  // As if the system let no more host memory be pinned (exec/runtime/pinning.h); -1 = it is tried.
  std::int64_t pinned_limit_bytes = -1;
};

/// Throws std::runtime_error that says what is missing, where no device can be used.
std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options);

/// A device's memory as a run finds it: arenas may have the total less the other two.
struct CudaMemory {
  std::int64_t total_bytes = 0;
  std::int64_t context_bytes = 0;  // in use once context and libraries are there; other programs' too
  std::int64_t later_bytes = 0;    // left for kernels that libraries load at first use
};
/// Makes a context. Throws as make_cuda_backend does.
CudaMemory measure_cuda_memory(int device = 0);

/// For people: one line per device, or what is missing.
std::string describe_cuda_devices();
bool cuda_device_available();

struct CudaAttention {
  std::string name;  // "cuDNN 9.19.0" or "own"; empty in a build without CUDA
  std::string note;  // Attention::note()
};
/// What would compute attention here. Needs no device.
CudaAttention cuda_attention();

/// Of a device, as the driver's tools name it: "0000:41:00.0". Empty where there is none.
std::string cuda_bus_id(int device = 0);

}  // namespace penstock::exec
