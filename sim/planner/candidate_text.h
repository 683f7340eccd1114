// A plan in one line, and what a machine lacks to hold it.
#pragma once

#include <string>

#include "shared/machine/machine.h"
#include "sim/planner/search_space.h"

namespace penstock::sim {

const char* tier_text(TierKind kind);  // "HBM", "DRAM", "NVMe"

/// "micro-batch 16, all together, keep everything in dram (3 slots), 12 layers' states and 20 layers' weights in HBM,
/// ..."
std::string candidate_text(const Candidate& candidate);

/// What arenas may take of a tier: "131.32 GiB", or "130.54 GiB of its 131.32 GiB" where some of it is kept.
std::string usable_text(TierKind tier, const Machine& machine);

/// "hbm needs 150.00 GiB and has 131.32 GiB, 18.68 GiB too little; dram ..."
std::string shortage_text(const ArenaBytes& arenas, const Machine& machine);

}  // namespace penstock::sim
