#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;
constexpr int kLinkThreads = 256;  // also the tile of places that a block looks back over in one turn

/// Where input r of the micro-batch lies in tokens [sequences, length + 1].
__device__ std::int64_t place(std::int64_t row, std::int64_t length) {
  return row / length * (length + 1) + row % length;
}

template <int W>
__global__ void gather_kernel(const std::int32_t* tokens, const std::uint16_t* weight, std::uint16_t* output,
                              int length, int hidden) {
  const std::int64_t token = tokens[place(blockIdx.x, length)];
  const std::uint16_t* from = weight + token * hidden;
  std::uint16_t* to = output + blockIdx.x * static_cast<std::int64_t>(hidden);
  for (int c = static_cast<int>(threadIdx.x) * W; c < hidden; c += kThreads * W)
    Packed<W>::load(from + c).store(to + c);
}

/// One thread per place: looks back, tile by tile, for the nearest earlier place of the same token. `next` of that
/// place has this one as its only writer; it was set to -1 before.
__global__ void link_kernel(const std::int32_t* tokens, std::int32_t* previous, std::int32_t* next, int rows,
                            int length) {
  __shared__ __align__(16) std::int32_t tile[kLinkThreads];
  const int row = static_cast<int>(blockIdx.x) * kLinkThreads + static_cast<int>(threadIdx.x);
  const std::int32_t mine = row < rows ? tokens[place(row, length)] : -1;
  int found = -1;
  for (int base = static_cast<int>(blockIdx.x) * kLinkThreads; base >= 0; base -= kLinkThreads) {
    __syncthreads();
    const int other = base + static_cast<int>(threadIdx.x);
    tile[threadIdx.x] = other < rows ? tokens[place(other, length)] : -2;
    if (!__syncthreads_or(row < rows && found < 0)) break;
    if (found >= 0) continue;
    // Within its own tile a place looks only before itself.
    const int count = min(kLinkThreads, row - base);
#pragma unroll 8
    for (int i = 0; i < count; ++i)
      if (tile[i] == mine) found = base + i;
  }
  if (row >= rows) return;
  previous[row] = found;
  if (found >= 0) next[found] = row;
}

/// Block (x, y): the chain that starts at place x, columns of slice y. Blocks at later places of a chain have nothing
/// to do.
template <class T, int W>
__global__ void scatter_kernel(const std::int32_t* tokens, const std::uint16_t* d_output, const std::int32_t* previous,
                               const std::int32_t* next, T* gradient, bool accumulates, int length, int hidden) {
  const int first = static_cast<int>(blockIdx.x);
  if (previous[first] >= 0) return;
  const std::int64_t start = static_cast<std::int64_t>(tokens[place(first, length)]) * hidden;
  const int column = (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * W;
  if (column >= hidden) return;
  float sums[W] = {};
  for (int row = first; row >= 0; row = next[row]) {
    float values[W];
    Packed<W>::load(d_output + static_cast<std::int64_t>(row) * hidden + column).unpack(values);
#pragma unroll
    for (int i = 0; i < W; ++i) sums[i] += values[i];
  }
  for (int i = 0; i < W; ++i) put(gradient, start + column + i, sums[i], accumulates);
}

}  // namespace

void embedding_forward(const std::int32_t* tokens, const std::uint16_t* weight, std::uint16_t* output, BatchShape batch,
                       std::int64_t hidden, Stream stream) {
  const auto blocks = static_cast<unsigned>(batch.tokens());
  const int length = static_cast<int>(batch.sequence_length), columns = static_cast<int>(hidden);
  if (hidden % 8 == 0)
    gather_kernel<8><<<blocks, kThreads, 0, stream>>>(tokens, weight, output, length, columns);
  else
    gather_kernel<1><<<blocks, kThreads, 0, stream>>>(tokens, weight, output, length, columns);
  PENSTOCK_CUDA_LAUNCH("embedding_forward");
}

void embedding_gradient_zero(GradientTarget gradient, std::int64_t hidden, std::int64_t vocabulary, Stream stream) {
  PENSTOCK_CUDA(cudaMemsetAsync(gradient.data, 0, vocabulary * hidden * element_bytes(gradient.type), stream));
}

void embedding_backward(const std::int32_t* tokens, const std::uint16_t* d_output, GradientTarget gradient,
                        std::int32_t* links, BatchShape batch, std::int64_t hidden, Stream stream) {
  const int rows = static_cast<int>(batch.tokens()), length = static_cast<int>(batch.sequence_length);
  std::int32_t* previous = links;
  std::int32_t* next = links + rows;
  PENSTOCK_CUDA(cudaMemsetAsync(next, 0xFF, rows * sizeof(std::int32_t), stream));
  const auto link_blocks = static_cast<unsigned>(divide_up(rows, kLinkThreads));
  link_kernel<<<link_blocks, kLinkThreads, 0, stream>>>(tokens, previous, next, rows, length);
  PENSTOCK_CUDA_LAUNCH("embedding links");
  const int width = hidden % 8 == 0 ? 8 : 1;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(divide_up(hidden, kThreads * width)));
  const int columns = static_cast<int>(hidden);
  with_type(gradient, [&](auto* typed) {
    if (width == 8)
      scatter_kernel<std::remove_pointer_t<decltype(typed)>, 8><<<grid, kThreads, 0, stream>>>(
          tokens, d_output, previous, next, typed, gradient.accumulates, length, columns);
    else
      scatter_kernel<std::remove_pointer_t<decltype(typed)>, 1><<<grid, kThreads, 0, stream>>>(
          tokens, d_output, previous, next, typed, gradient.accumulates, length, columns);
  });
  PENSTOCK_CUDA_LAUNCH("embedding_backward");
}

}  // namespace penstock::exec
