#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;  // of one block of reduce_kernel; the other dimension cuts the rows into 8 runs
constexpr int kRuns = kThreads / kColumns;

/// Each thread adds one run of rows in order; then the runs are added in order.
template <class T>
__global__ void reduce_kernel(const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns,
                              T* target, bool accumulates) {
  __shared__ float sums[kRuns][kColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t per_run = (rows + kRuns - 1) / kRuns;
  const std::int64_t first = threadIdx.y * per_run, last = min(rows, first + per_run);
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t row = first; row < last; ++row) sum += partials[row * stride + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int run = 1; run < kRuns; ++run) sum += sums[run][threadIdx.x];
  put(target, column, sum, accumulates);
}

/// Block (x, y): W columns per thread, rows y, y + gridDim.y, ... in order.
template <int W>
__global__ void slab_kernel(const std::uint16_t* values, std::int64_t rows, std::int64_t columns, float* partials) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W;
  if (column >= columns) return;
  float sums[W] = {};
#pragma unroll 4
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float parts[W];
    Packed<W>::load(values + row * columns + column).unpack(parts);
#pragma unroll
    for (int i = 0; i < W; ++i) sums[i] += parts[i];
  }
  for (int i = 0; i < W; ++i) partials[blockIdx.y * columns + column + i] = sums[i];
}

}  // namespace

void reduce_partials(const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns,
                     GradientTarget target, Stream stream) {
  if (target.data == nullptr) return;
  const auto blocks = static_cast<unsigned>(divide_up(columns, kColumns));
  with_type(target, [&](auto* typed) {
    reduce_kernel<<<blocks, dim3(kColumns, kRuns), 0, stream>>>(partials, rows, stride, columns, typed,
                                                                target.accumulates);
  });
  PENSTOCK_CUDA_LAUNCH("reduce_partials");
}

void column_sum(const std::uint16_t* values, std::int64_t rows, std::int64_t columns, GradientTarget target,
                float* partials, Stream stream) {
  const std::int64_t slabs = rows < kReductionRows ? rows : kReductionRows;
  const std::int64_t width = columns % 8 == 0 ? 8 : 1;
  const dim3 grid(static_cast<unsigned>(divide_up(columns, kThreads * width)), static_cast<unsigned>(slabs));
  if (width == 8)
    slab_kernel<8><<<grid, kThreads, 0, stream>>>(values, rows, columns, partials);
  else
    slab_kernel<1><<<grid, kThreads, 0, stream>>>(values, rows, columns, partials);
  PENSTOCK_CUDA_LAUNCH("column_sum");
  reduce_partials(partials, slabs, columns, columns, target, stream);
}

}  // namespace penstock::exec
