#include "exec/cuda/error.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec {
namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <int W>
__global__ void forward_kernel(const std::uint16_t* gate_up, std::uint16_t* product, int intermediate) {
  const std::uint16_t* gate_row = gate_up + blockIdx.x * 2LL * intermediate;
  std::uint16_t* product_row = product + blockIdx.x * static_cast<std::int64_t>(intermediate);
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * W; c < intermediate; c += kThreads * W) {
    float gate[W], up[W];
    Packed<W>::load(gate_row + c).unpack(gate);
    Packed<W>::load(gate_row + intermediate + c).unpack(up);
#pragma unroll
    for (int i = 0; i < W; ++i) up[i] *= gate[i] * sigmoid(gate[i]);
    Packed<W>::pack(up).store(product_row + c);
  }
}

template <int W>
__global__ void backward_kernel(const std::uint16_t* gate_up, const std::uint16_t* d_product, std::uint16_t* product,
                                std::uint16_t* d_gate_up, int intermediate) {
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(intermediate);
  const std::uint16_t* gate_row = gate_up + 2 * row;
  std::uint16_t* d_gate_row = d_gate_up + 2 * row;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * W; c < intermediate; c += kThreads * W) {
    float gate[W], up[W], d[W], forward[W];
    Packed<W>::load(gate_row + c).unpack(gate);
    Packed<W>::load(gate_row + intermediate + c).unpack(up);
    Packed<W>::load(d_product + row + c).unpack(d);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float s = sigmoid(gate[i]), silu = gate[i] * s;
      forward[i] = up[i] * silu;
      gate[i] = d[i] * up[i] * (s + silu * (1.0f - s));  // silu' = s + g s (1 - s)
      up[i] = d[i] * silu;
    }
    Packed<W>::pack(forward).store(product + row + c);
    Packed<W>::pack(gate).store(d_gate_row + c);
    Packed<W>::pack(up).store(d_gate_row + intermediate + c);
  }
}

}  // namespace

void swiglu_forward(const std::uint16_t* gate_up, std::uint16_t* product, std::int64_t rows, std::int64_t intermediate,
                    Stream stream) {
  const auto blocks = static_cast<unsigned>(rows);
  const int columns = static_cast<int>(intermediate);
  if (columns % 8 == 0)
    forward_kernel<8><<<blocks, kThreads, 0, stream>>>(gate_up, product, columns);
  else
    forward_kernel<1><<<blocks, kThreads, 0, stream>>>(gate_up, product, columns);
  PENSTOCK_CUDA_LAUNCH("swiglu_forward");
}

void swiglu_backward(const std::uint16_t* gate_up, const std::uint16_t* d_product, std::uint16_t* product,
                     std::uint16_t* d_gate_up, std::int64_t rows, std::int64_t intermediate, Stream stream) {
  const auto blocks = static_cast<unsigned>(rows);
  const int columns = static_cast<int>(intermediate);
  if (columns % 8 == 0)
    backward_kernel<8><<<blocks, kThreads, 0, stream>>>(gate_up, d_product, product, d_gate_up, columns);
  else
    backward_kernel<1><<<blocks, kThreads, 0, stream>>>(gate_up, d_product, product, d_gate_up, columns);
  PENSTOCK_CUDA_LAUNCH("swiglu_backward");
}

}  // namespace penstock::exec
