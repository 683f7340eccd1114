// What the passes of the host are called in a profile: calibration times them under these names, the cost model looks
// them up. And what the largest of them moves.
#pragma once

#include <string>

#include "shared/ir/schedule.h"

namespace penstock {

/// "adamw planes fp32 bf16": states, moments, gradient.
std::string adamw_pass_name(StateFormat states, ElementType moments, ElementType gradient);
/// "accumulate bf16 fp32": what is added, the sum. "set" instead: the first of a step, which does not read the sum.
std::string accumulate_pass_name(ElementType part, ElementType sum, bool first);
/// "finish fp32 bf16": the sum, what it is rounded to while its norm is taken.
std::string finish_pass_name(ElementType sum, ElementType out);

/// Bytes that AdamW reads and writes per parameter. planes with fp32 moments and bf16 gradients: hi 2 + 2, lo 2 + 2,
/// m 4 + 4, v 4 + 4, gradient 2 = 26.
double optimizer_bytes_per_parameter(const Numerics& numerics);

}  // namespace penstock
