// Device side of GradientTarget: fp32 values into fp32 or bf16, added or overwriting.
#pragma once

#include "exec/cuda/kernels.h"
#include "exec/cuda/vectors.cuh"

namespace penstock::exec {

__device__ inline void put(float* target, std::int64_t index, float value, bool accumulates) {
  target[index] = accumulates ? target[index] + value : value;
}

__device__ inline void put(std::uint16_t* target, std::int64_t index, float value, bool accumulates) {
  target[index] = narrow(accumulates ? widen(target[index]) + value : value);
}

/// W consecutive values; W = 8 in accesses of 16 bytes.
template <int W>
__device__ void put(float* target, std::int64_t index, const float (&values)[W], bool accumulates) {
  static_assert(W == 1 || W == 8);
  if constexpr (W == 1) {
    put(target, index, values[0], accumulates);
  } else {
#pragma unroll
    for (int i = 0; i < W; i += 4) {
      auto* const to = reinterpret_cast<float4*>(target + index + i);
      float4 sum = make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
      if (accumulates) {
        const float4 before = *to;
        sum = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
      }
      *to = sum;
    }
  }
}

template <int W>
__device__ void put(std::uint16_t* target, std::int64_t index, float (&values)[W], bool accumulates) {
  if (accumulates) {
    float before[W];
    Packed<W>::load(target + index).unpack(before);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = before[i] + values[i];
  }
  Packed<W>::pack(values).store(target + index);
}

/// Calls `launch` with the target as a typed pointer.
template <class Launch>
void with_type(const GradientTarget& target, Launch launch) {
  if (target.type == ElementType::fp32)
    launch(static_cast<float*>(target.data));
  else
    launch(static_cast<std::uint16_t*>(target.data));
}

}  // namespace penstock::exec
