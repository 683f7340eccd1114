// What another system needs where a preset's schedule stands for it: the schedule's bytes, phase by phase, and what
// that system's own code adds to them (shared/machine/software_memory.h).
//
// The schedule counts as what is live in a phase, not as its arena: these systems allocate as they go.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/machine/software_memory.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {

/// One item in one tier, in the phases that it is there.
struct AddedMemory {
  TierKind tier = TierKind::dram;
  std::string cause;
  std::array<bool, kMemoryPhases> phases{};
  std::int64_t bytes = 0;       // less what it stands for
  std::int64_t instead_of = 0;  // bytes of the schedule that it stands for
};

struct SystemTier {
  Tier tier;                                              // capacity: what a system may take (memory_on)
  std::array<std::int64_t, kMemoryPhases> phase_bytes{};  // the schedule's and what is added
  /// Most of the phases up to the first step: whether it trains. Saving and resuming are judged apart.
  std::int64_t peak_bytes = 0;
  MemoryPhase peak_phase = MemoryPhase::load;
  std::int64_t most_until(MemoryPhase last) const;  // up to the first step and, if `last` is behind it, in that one
};

struct SystemMemory {
  std::string name;
  std::filesystem::path path;
  SoftwareSettings settings;  // the file's, changed by the scenario's
  std::vector<AddedMemory> added;
  std::vector<SystemTier> tiers;  // as those of the schedule
  bool fits() const;
};

/// The items of `software` that the scenario's policy has, in bytes. Throws InputError: a setting that the software
/// does not have, or of another kind; a phase or a preset that does not exist.
SystemMemory system_memory(const SoftwareMemory& software, const Scenario& scenario,
                           const std::vector<TierMemory>& schedule);

/// What does not fit: tier, by how much, in which phase; empty if it trains.
std::string excess_text(const SystemMemory& system);

}  // namespace penstock::sim
