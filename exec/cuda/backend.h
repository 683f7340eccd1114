// The CUDA backend, behind one header: backend.cpp where the build has CUDA, absent.cpp where it has not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/runtime/backend.h"

namespace penstock::exec {

struct CudaDevice {
  std::string name;
  std::int64_t hbm_bytes = 0;   // of the device
  std::int64_t free_bytes = 0;  // now
  std::string driver, runtime;  // versions
};

struct CudaStatus {
  bool usable = false;
  std::string missing;  // what to do, where it is not usable
  std::vector<CudaDevice> devices;
};
CudaStatus cuda_status();

struct CudaBackendOptions {
  int device = 0;
  bool deterministic = true;         // attention backward
  std::int64_t hbm_limit_bytes = 0;  // bounds context, modules and arenas together; 0 = the device's memory
};

/// Creates context and modules, so that `arena_limit_bytes` is known before a schedule is made. Throws InputError if
/// cuda_status is not usable, DoesNotFit if the limit is below what context and modules take.
std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options);

}  // namespace penstock::exec
