// Checked calls of CUDA and its libraries: what was called, where, what it answered, in words.
// Include only where the CUDA headers are at hand (.cpp files that call CUDA, launchers in .cu files).
#pragma once

#include <cuda_runtime_api.h>

namespace penstock::exec {

/// Thrown text: "exec/cuda/matmul.cpp:31: cudaMemcpy(...): out of memory (cudaErrorMemoryAllocation, 2)".
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line);
/// `library` "cuBLASLt" or "cuDNN".
[[noreturn]] void throw_library_error(const char* library, int status, const char* text, const char* call,
                                      const char* file, int line);

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error != cudaSuccess) throw_cuda_error(error, call, file, line);
}

}  // namespace penstock::exec

#define PENSTOCK_CUDA(call) ::penstock::exec::check_cuda((call), #call, __FILE__, __LINE__)
/// After a kernel launch: a bad launch configuration shows here, a fault inside the kernel at a later call.
#define PENSTOCK_CUDA_LAUNCH(kernel) \
  ::penstock::exec::check_cuda(cudaGetLastError(), "launch of " kernel, __FILE__, __LINE__)
