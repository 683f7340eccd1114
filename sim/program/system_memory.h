// What the system that a preset stands for needs, with what its own code adds: which software file says it, and the
// result for people and for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "sim/software/added_memory.h"

namespace penstock::sim {

struct SystemVerdict {
  std::optional<SystemMemory> memory;
  std::string left_out;  // why it is not counted although the preset stands for another system; empty: it does not
};

/// Not counted where the policy is ours, its numerics are not that system's, the CPU stands in for the GPU, or the file
/// says nothing of memory. The file is the scenario's [machine] software, or the preset's in the catalogue. Throws
/// InputError if that is not there, or if [software] is given and nothing reads it.
SystemVerdict system_of(const Scenario& scenario, const std::vector<TierMemory>& schedule);

/// The items by tier, and what each tier then needs, phase by phase.
std::string system_text(const SystemMemory& system);
nlohmann::ordered_json system_json(const SystemMemory& system);

}  // namespace penstock::sim
