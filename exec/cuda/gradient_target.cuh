// Device side of GradientTarget: one fp32 value into fp32 or bf16, added or overwriting.
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

/// Calls `launch` with the target as a typed pointer.
template <class Launch>
void with_type(const GradientTarget& target, Launch launch) {
  if (target.type == ElementType::fp32)
    launch(static_cast<float*>(target.data));
  else
    launch(static_cast<std::uint16_t*>(target.data));
}

}  // namespace penstock::exec
