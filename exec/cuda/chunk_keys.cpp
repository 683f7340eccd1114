#include "exec/cuda/chunk_keys.h"

#include <cuda_runtime_api.h>

#include <cstddef>

#include "exec/cuda/error.h"

namespace penstock::exec {

void copy_columns(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to, std::int64_t columns,
                  std::int64_t rows, Stream stream) {
  const auto bytes = static_cast<std::size_t>(2 * columns);
  PENSTOCK_CUDA(cudaMemcpy2DAsync(to, bytes, from, static_cast<std::size_t>(2 * stride), bytes,
                                  static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, stream));
}

}  // namespace penstock::exec
