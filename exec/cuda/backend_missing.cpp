#include <cstdlib>
#include <stdexcept>
#include <string>

#include "exec/cuda/backend.h"

namespace penstock::exec {
namespace {

constexpr const char* kMissing =
    "this penstock-exec was built without CUDA: install the CUDA Toolkit (13.0 or newer; attention is faster with cuDNN 9), put nvcc on "
    "PATH, configure again and look for \"CUDA backend TRUE\"";

/// Of an archive (scripts/package) this program is the one that runs where the other's libraries are not found, and
/// what starts it says which.
std::string missing() {
  const char* const found_out = std::getenv("PENSTOCK_CUDA_MISSING");
  return found_out == nullptr || *found_out == '\0' ? kMissing : found_out;
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions&) { throw std::runtime_error(missing()); }
CudaMemory measure_cuda_memory(int) { throw std::runtime_error(missing()); }
std::string describe_cuda_devices() { return missing(); }
bool cuda_device_available() { return false; }
CudaAttention cuda_attention() { return {}; }
std::string cuda_bus_id(int) { return {}; }

}  // namespace penstock::exec
