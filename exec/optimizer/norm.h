// The fixed reduction tree of the gradient norm: the same bits on host and GPU, whatever the threads.
//
// Level: the input is cut into leaves of 1024 consecutive elements (the last one padded with zeros). Within a leaf,
// lane j of 32 adds elements j, j + 32, j + 64, ... in that order, in fp64 (first level: acc = fma(x, x, acc) with x
// widened to fp64; later levels: acc = acc + x); then the lanes are added pairwise: j += j + 16, j += j + 8, j += j +
// 4, j += j + 2, j += j + 1. Each leaf gives one fp64; levels repeat until one is left. Empty input: 0.
#pragma once

#include <cstdint>

#include "shared/ir/schedule.h"

namespace penstock::exec {

inline constexpr std::int64_t kNormLeaf = 1024;
inline constexpr int kNormLanes = 32;

double sum_of_squares_host(const void* values, ElementType type, std::int64_t elements, int threads);

/// gradient_sum -> gradient: out[i] = round(sum[i] (+ tied[i] if not nullptr, added in fp32)); rounds to nearest even
/// for bf16, in place where types agree. Returns the sum of squares of what was written.
double finish_gradient_host(const void* sum, ElementType sum_type, const void* tied, void* out, ElementType out_type,
                            std::int64_t elements, int threads);

/// sum = first ? part : sum + part, in fp32, rounded to `sum_type`.
void accumulate_host(const void* part, ElementType part_type, void* sum, ElementType sum_type, bool first,
                     std::int64_t elements, int threads);

}  // namespace penstock::exec
