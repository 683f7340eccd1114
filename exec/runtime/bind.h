// Binds every op of a schedule to memory, once, before the run. Which range is which operand follows from the labels of
// the op's reads and writes; sizes are checked against the model, so that no op can reach outside its ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/runtime/bound_op.h"

namespace penstock::exec {

/// `arenas[i]` is the address of tiers[i].
/// Throws InputError naming the op and the operand that is missing, too small, or not in place.
/// REQUIRES: a schedule that check_schedule accepts. `schedule` and `model` must outlive the result.
BoundSchedule bind_schedule(const Schedule& schedule, const Model& model, const std::vector<std::byte*>& arenas);

/// Bytes that each tier's arena needs: the highest end of any buffer.
std::vector<std::int64_t> arena_bytes(const Schedule& schedule);

}  // namespace penstock::exec
