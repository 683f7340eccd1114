// Memory by tier and phase, as a table and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/machine/machine.h"
#include "sim/planner/remedy.h"

namespace penstock::sim {

/// One column per tier: capacity, what of it is kept from arenas and for whom, arena, headroom and the phases. `memory`
/// as memory_on gives it.
std::string memory_text(const std::vector<TierMemory>& memory, const Machine& machine);
/// "131.32 GiB, of which 794.80 MiB kept for driver, context and libraries".
std::string capacity_text(TierKind tier, const Machine& machine);
/// What each arena holds, largest first, one line per tier.
std::string contents_text(const std::vector<TierMemory>& memory);
nlohmann::ordered_json memory_json(const std::vector<TierMemory>& memory, const Machine& machine);

/// What would make a scenario fit that does not.
nlohmann::ordered_json remedies_json(const std::vector<Remedy>& remedies);

/// Two-blank-indented JSON with a line end; bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace penstock::sim
