// Proves a schedule before anything runs (docs/design.md, "The proof").
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

enum class FaultKind {
  malformed,      // dangling index, bytes outside the buffer, ids not in order, a wait outside the launch lane, ...
  cycle,          // would deadlock
  race,           // two accesses to the same bytes, one a write, not ordered
  over_capacity,  // a buffer ends behind its tier
  wrong_value,    // a read finds another tensor, layer, version or micro-batch than it declares
  incomplete,     // a contribution lost or counted twice, norm before the last one, no or two updates
};

struct Fault {
  FaultKind kind = FaultKind::malformed;
  int first_op = -1;  // -1 where there is none
  int second_op = -1;
  std::string text;  // one sentence for a person: both ops by name, the value, the bytes
};

/// All faults, at most `limit`, in a deterministic order; empty means proved. Linear in ops x lanes + accesses.
std::vector<Fault> check_schedule(const Schedule& schedule, std::size_t limit = 20);

/// Whether a schedule may be larger than its tiers: where capacity is judged apart, its faults would crowd out others.
enum class Capacities { are_checked, are_not };

/// Throws InputError (DoesNotFit for over_capacity alone) with the faults as one paragraph.
void require_valid(const Schedule& schedule, Capacities capacities = Capacities::are_checked);

}  // namespace penstock
