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
};

/// Throws std::runtime_error that says what is missing, where no device can be used.
std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options);

/// For people: one line per device, or what is missing.
std::string describe_cuda_devices();
bool cuda_device_available();

}  // namespace penstock::exec
