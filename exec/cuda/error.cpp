#include "exec/cuda/error.h"

#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock::exec {
namespace {

/// The path from the source root on, so that the text does not depend on where it was built.
std::string place(const char* file, int line) {
  const std::string_view path(file);
  const auto start = path.rfind("exec/cuda/");
  return std::string(start == std::string_view::npos ? path : path.substr(start)) + ":" + std::to_string(line) + ": ";
}

}  // namespace

void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  throw std::runtime_error(place(file, line) + call + ": " + cudaGetErrorString(error) + " (" +
                           cudaGetErrorName(error) + ", " + std::to_string(static_cast<int>(error)) + ")");
}

void throw_library_error(const char* library, int status, const char* text, const char* call, const char* file,
                         int line) {
  throw std::runtime_error(place(file, line) + call + ": " + library + " answered " + text + " (" +
                           std::to_string(status) + ")");
}

}  // namespace penstock::exec
