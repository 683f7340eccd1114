// Memory by tier and phase, as a table and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shared/ir/memory.h"

namespace penstock::sim {

/// One column per tier: capacity, arena, headroom and the phases.
std::string memory_text(const std::vector<TierMemory>& memory);
/// What each arena holds, largest first, one line per tier.
std::string contents_text(const std::vector<TierMemory>& memory);
nlohmann::ordered_json memory_json(const std::vector<TierMemory>& memory);

/// Two-blank-indented JSON with a line end; bytes that are not UTF-8 are replaced.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace penstock::sim
