// Binds every op of a schedule to memory, once, before the run. Which range is which operand follows from the labels of
// the op's reads and writes; sizes are checked against the model, so that no op can reach outside its ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/runtime/bound_op.h"

namespace penstock::exec {

/// `memories[i]` is that of tiers[i]. Copies are bound to ranges; every other operand must have an address.
/// Throws InputError naming the op and the operand that is missing, too small, not in place, or without an address.
/// REQUIRES: a schedule that check_schedule accepts. All three must outlive the result.
BoundSchedule bind_schedule(const Schedule& schedule, const Model& model, const TierMemories& memories);

/// Bytes that each tier's arena needs: the highest end of any buffer.
std::vector<std::int64_t> arena_bytes(const Schedule& schedule);

}  // namespace penstock::exec
