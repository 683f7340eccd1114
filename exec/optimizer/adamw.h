// AdamW as both backends compute it: one list of IEEE operations, so that host and GPU agree to the bit.
//
// Per element, all fp32, in this order (explicit fma; division and sqrt correctly rounded; denormals kept; no
// contraction beyond what is written):
//   g     = gradient * clip_scale
//   m     = fma(beta1, m, one_minus_beta1 * g)
//   v     = fma(beta2, v, (one_minus_beta2 * g) * g)
//   denom = fma(sqrt(v), inverse_sqrt_bias2, epsilon)
//   p     = p * decay                                  decay = 1 - learning_rate * weight_decay, 1 where there is none
//   p     = p - (step_size * m) / denom                step_size = learning_rate / (1 - beta1^t)
// Moments in bf16 are widened first and rounded to nearest even when stored.
// skip != 0 (the norm was not finite): the states stay as they are.
//
// Planes (states = planes): with `bits` the fp32 pattern, hi = (bits + 0x8000) >> 16 (nearest, ties away),
// lo = bits & 0xFFFF; joined by ((hi - (lo >> 15)) << 16) | lo. Exact for every finite float and infinity; NaN is
// stored as 0x7FC00000.
#pragma once

#include <cstdint>

#include "shared/ir/schedule.h"

namespace penstock::exec {

/// The value of a step_scalars buffer. 64 bytes, plain data, the same on host and device.
struct StepScalars {
  double norm = 0;       // exact global norm of the rounded gradients; 0 without clipping
  float clip_scale = 1;  // min(1, max_norm / (norm + 1e-6)), in double, rounded once
  float learning_rate = 0;
  float step_size = 0;
  float inverse_sqrt_bias2 = 1;
  float decay = 1;
  float beta1 = 0, one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float epsilon = 0;
  std::uint32_t skip = 0;
  std::uint32_t reserved[3] = {};
};
static_assert(sizeof(StepScalars) == 64);

struct AdamHyper {
  double learning_rate = 3e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, max_norm = 1.0;
};

/// Step counts from 1. `sum_of_squares` is the total of all norm partials, added in layer order; `clips` false: scale
/// 1, norm 0, never skipped. All in fp64, each member rounded to fp32 once; beta^step by std::pow, so make the scalars
/// of a step on the host (with sum_of_squares 0) and let the device only apply the norm (apply_norm, step_scalars.h).
StepScalars make_step_scalars(const AdamHyper& hyper, std::int64_t step, double sum_of_squares, bool clips);

/// The state of one layer, any of the three formats; pointers not of the format are nullptr.
struct OptimizerStates {
  StateFormat format = StateFormat::planes;
  ElementType moments = ElementType::fp32;
  std::uint16_t* weights = nullptr;   // hi, or the bf16 copy, or the bf16 parameter
  std::uint16_t* low_bits = nullptr;  // planes
  float* master = nullptr;            // master_and_copy (bf16 copy rounded to nearest even)
  void* m = nullptr;
  void* v = nullptr;
};

/// Elements of a layer's flat order that take no weight decay: for them `decay` is 1, exactly. Ascending ranges that
/// begin and end at multiples of kGroupAlignment, or at the layer's end.
struct UndecayedRanges {
  static constexpr int kMost = 8;
  int count = 0;
  std::int64_t begin[kMost] = {}, end[kMost] = {};
};

/// One pass over `elements` on `threads` threads (the calling one included). Deterministic whatever the threads.
void adamw_host(const OptimizerStates& states, const void* gradient, ElementType gradient_type, std::int64_t elements,
                const StepScalars& scalars, int threads, const UndecayedRanges& undecayed = {});

}  // namespace penstock::exec
