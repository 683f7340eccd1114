#include "exec/cuda/attention_parts.h"

#include "exec/cuda/error.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;

__global__ void add_kernel(Rows<const std::uint16_t> part, Rows<float> sum, bool adds, Rows<std::uint16_t> rounded,
                           std::int64_t elements, std::int64_t columns) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const std::int64_t row = i / columns, column = i % columns;
  float* const at = sum.first + row * sum.stride + column;
  float value = widen(part.first[row * part.stride + column]);
  if (adds) value += *at;
  *at = value;
  if (rounded.first != nullptr) rounded.first[row * rounded.stride + column] = narrow(value);
}

}  // namespace

void add_part(Rows<const std::uint16_t> part, Rows<float> sum, bool adds, Rows<std::uint16_t> rounded,
              std::int64_t rows, std::int64_t columns, Stream stream) {
  const std::int64_t elements = rows * columns;
  add_kernel<<<static_cast<unsigned>(divide_up(elements, kThreads)), kThreads, 0, stream>>>(part, sum, adds, rounded,
                                                                                            elements, columns);
  PENSTOCK_CUDA_LAUNCH("attention parts");
}

}  // namespace penstock::exec
