// What the system that a preset stands for needs, with what its own code adds: which software file says it, and the
// result for people and for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "sim/software/added_memory.h"

namespace penstock::sim {

/// None where no other system is meant: the policy is ours, its numerics are not that system's, the CPU stands in for
/// the GPU, or the file says nothing of memory. The file is the scenario's [machine] software, or the preset's in the
/// catalogue; throws InputError if that is not there.
std::optional<SystemMemory> system_of(const Scenario& scenario, const std::vector<TierMemory>& schedule);

/// The items by tier, and what each tier then needs, phase by phase.
std::string system_text(const SystemMemory& system);
nlohmann::ordered_json system_json(const SystemMemory& system);
/// What does not fit: tier, by how much, in which phase; empty if it trains.
std::string system_excess_text(const SystemMemory& system);

}  // namespace penstock::sim
