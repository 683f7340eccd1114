#include <string>

#include "exec/cuda/error.h"
#include "exec/cuda/gradient_target.cuh"
#include "shared/error.h"

namespace penstock::exec {
namespace {

/// Each thread holds V packs of W elements of its row: pack v at column (v * blockDim.x + threadIdx.x) * W.
template <int W, int V>
struct RowSlice {
  Packed<W> packs[V];

  __device__ static int column(int v) { return (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * W; }
  __device__ void load(const std::uint16_t* row, int columns) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (column(v) < columns) packs[v] = Packed<W>::load(row + column(v));
  }
};

template <int W, int V, int Bound>
__global__ void __launch_bounds__(Bound)
    forward_kernel(const std::uint16_t* x, const std::uint16_t* weight, std::uint16_t* y, int columns, float epsilon) {
  __shared__ float scratch[32];
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.x) * columns;
  RowSlice<W, V> slice;
  slice.load(x + start, columns);
  float squares = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (slice.column(v) >= columns) continue;
    float values[W];
    slice.packs[v].unpack(values);
#pragma unroll
    for (int i = 0; i < W; ++i) squares += values[i] * values[i];
  }
  const float scale = rsqrtf(block_sum(squares, scratch) / static_cast<float>(columns) + epsilon);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int column = slice.column(v);
    if (column >= columns) continue;
    float values[W], weights[W];
    slice.packs[v].unpack(values);
    Packed<W>::load(weight + column).unpack(weights);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = values[i] * scale * weights[i];
    Packed<W>::pack(values).store(y + start + column);
  }
}

/// Block b takes rows b, b + gridDim.x, ... and adds their part of d_weight in registers; row b of `partials` gets it.
/// The next row's x and d_y are on their way while the block adds up this one's.
template <int W, int V, int Bound>
__global__ void __launch_bounds__(Bound)
    backward_kernel(const std::uint16_t* x, const std::uint16_t* weight, const std::uint16_t* d_y,
                    const std::uint16_t* residual, std::uint16_t* d_x, float* partials, std::int64_t rows, int columns,
                    float epsilon) {
  __shared__ float2 scratch[2][32];
  float d_weight[V][W] = {};
  RowSlice<W, V> x_next, d_next;
  x_next.load(x + blockIdx.x * static_cast<std::int64_t>(columns), columns);
  d_next.load(d_y + blockIdx.x * static_cast<std::int64_t>(columns), columns);
  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
    const std::int64_t start = row * columns;
    const RowSlice<W, V> x_slice = x_next, d_slice = d_next;
    if (row + gridDim.x < rows) {
      x_next.load(x + start + gridDim.x * static_cast<std::int64_t>(columns), columns);
      d_next.load(d_y + start + gridDim.x * static_cast<std::int64_t>(columns), columns);
    }
    float2 sums = make_float2(0.0f, 0.0f);  // x squared, d_y * weight * x
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (x_slice.column(v) >= columns) continue;
      float xs[W], ds[W], ws[W];
      x_slice.packs[v].unpack(xs);
      d_slice.packs[v].unpack(ds);
      Packed<W>::load(weight + x_slice.column(v)).unpack(ws);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        sums.x += xs[i] * xs[i];
        sums.y += ds[i] * ws[i] * xs[i];
      }
    }
    sums = block_sum(sums, scratch[turn]);
    const float scale = rsqrtf(sums.x / static_cast<float>(columns) + epsilon);
    const float along = sums.y * scale * scale * scale / static_cast<float>(columns);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int column = x_slice.column(v);
      if (column >= columns) continue;
      float xs[W], ds[W], ws[W], rest[W] = {};
      x_slice.packs[v].unpack(xs);
      d_slice.packs[v].unpack(ds);
      Packed<W>::load(weight + column).unpack(ws);
      if (residual) Packed<W>::load(residual + start + column).unpack(rest);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        d_weight[v][i] += ds[i] * xs[i] * scale;
        rest[i] += ds[i] * ws[i] * scale - xs[i] * along;
      }
      Packed<W>::pack(rest).store(d_x + start + column);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int column = RowSlice<W, V>::column(v);
    if (column >= columns) continue;
    for (int i = 0; i < W; ++i) partials[blockIdx.x * static_cast<std::int64_t>(columns) + column + i] = d_weight[v][i];
  }
}

template <int W, int V, int Bound>
struct Slicing {
  static constexpr int w = W, v = V, bound = Bound;  // bound: most threads per block
};

/// Calls `launch(slicing, threads)` with the fewest packs per thread that keep blocks small; long rows take large
/// blocks.
template <class Launch>
void with_slices(std::int64_t columns, Launch launch) {
  const bool wide = columns % 8 == 0;
  const std::int64_t packs = wide ? columns / 8 : columns;
  const auto use = [&](auto slicing) {
    launch(slicing, static_cast<unsigned>(divide_up(divide_up(packs, slicing.v), 32) * 32));
  };
  if (packs > (wide ? 4096 : 16384))
    throw InputError("RMSNorm: rows of " + std::to_string(columns) +
                     " elements are longer than the GPU kernels take (" +
                     (wide ? "32768" : "16384, or 32768 where 8 divides it") + ")");
  if (wide) {
    if (packs <= 256) return use(Slicing<8, 1, 256>());
    if (packs <= 512) return use(Slicing<8, 2, 256>());
    if (packs <= 1024) return use(Slicing<8, 4, 256>());
    if (packs <= 2048) return use(Slicing<8, 4, 512>());
    return use(Slicing<8, 4, 1024>());
  }
  if (packs <= 4096) return use(Slicing<1, 4, 1024>());
  return use(Slicing<1, 16, 1024>());
}

}  // namespace

void rms_norm_forward(const std::uint16_t* x, const std::uint16_t* weight, std::uint16_t* y, std::int64_t rows,
                      std::int64_t columns, float epsilon, Stream stream) {
  with_slices(columns, [&](auto s, unsigned threads) {
    forward_kernel<s.w, s.v, s.bound>
        <<<static_cast<unsigned>(rows), threads, 0, stream>>>(x, weight, y, static_cast<int>(columns), epsilon);
  });
  PENSTOCK_CUDA_LAUNCH("rms_norm_forward");
}

void rms_norm_backward(const std::uint16_t* x, const std::uint16_t* weight, const std::uint16_t* d_y,
                       const std::uint16_t* residual, std::uint16_t* d_x, GradientTarget d_weight, float* partials,
                       std::int64_t rows, std::int64_t columns, float epsilon, Stream stream) {
  const std::int64_t blocks = rows < kReductionRows ? rows : kReductionRows;
  with_slices(columns, [&](auto s, unsigned threads) {
    backward_kernel<s.w, s.v, s.bound><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
        x, weight, d_y, residual, d_x, partials, rows, static_cast<int>(columns), epsilon);
  });
  PENSTOCK_CUDA_LAUNCH("rms_norm_backward");
  reduce_partials(partials, blocks, columns, columns, d_weight, stream);
}

}  // namespace penstock::exec
