// What a scenario leaves open under a preset that is the planner's (PresetInfo::planned), chosen in a few seconds for
// every command of both programs.
//
// Micro-batch and token chunks stay as the scenario has them, so that the choice moves data and never changes a bit of
// a result; `search` looks further. Deterministic as it is. Small chunks of the MLP are tried only if nothing fits
// otherwise, and never where [policy] gives a chunk; NVMe only if nothing fits at all without.
#pragma once

#include <string>

#include "sim/planner/search.h"

namespace penstock::sim {

/// Replaces `scenario.policy` by the fastest plan found for the capacities of its machine, or by the one that comes
/// closest to fitting, and fixes it. Returns one line that says what was chosen; empty, and nothing is changed, if the
/// preset is not the planner's or nothing was left open. Of `how` threads, deadline, stop and progress are
/// taken, and most_ops where it is less than the usual.
/// Throws InputError for a figure that the machine lacks.
std::string choose_open_policy(Scenario& scenario, const SearchOptions& how = {});

}  // namespace penstock::sim
