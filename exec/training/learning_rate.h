// The learning rate of a step t, counted from 1 beyond resumes; W steps of warm-up, T in all, D of decay.
//
//   t < W      peak * t / W
//   constant   peak
//   linear     final + (peak - final) * (1 - p)                 p = (t - S) / (T - S), S = max(W, 1)
//   cosine     final + (peak - final) * (1 + cos(pi * p)) / 2   the same p
//   wsd        final + (peak - final) * (1 - p)                 p = (t - (T - D)) / D, 0 before
//   t >= T     final, but for constant
#pragma once

#include <cstdint>

#include "shared/scenario/training_options.h"

namespace penstock::exec {

/// REQUIRES: T > S, and T - D >= S.
double learning_rate_of_step(std::int64_t step, double peak, std::int64_t warmup_steps, const RateOptions& rate);

}  // namespace penstock::exec
