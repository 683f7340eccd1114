#include <stdexcept>

#include "exec/cuda/backend.h"

namespace penstock::exec {
namespace {

constexpr const char* kMissing =
    "this penstock-exec was built without CUDA: install the CUDA Toolkit (13.0 or newer, with cuDNN 9), put nvcc on "
    "PATH, configure again and look for \"CUDA backend TRUE\"";

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions&) { throw std::runtime_error(kMissing); }
CudaMemory measure_cuda_memory(int) { throw std::runtime_error(kMissing); }
std::string describe_cuda_devices() { return kMissing; }
bool cuda_device_available() { return false; }

}  // namespace penstock::exec
