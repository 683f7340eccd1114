// Bytes per tier and phase of the step: DESIGN.md section 4.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

/// The phases in which people run out of memory.
enum class MemoryPhase { load, forward, loss, backward, optimizer, first_step, save, resume };
inline constexpr int kMemoryPhases = 8;
const char* memory_phase_name(MemoryPhase phase);

struct TierMemory {
  Tier tier;
  std::int64_t arena_bytes = 0;                          // highest end of any buffer: what is allocated
  std::array<std::int64_t, kMemoryPhases> phase_bytes{}; // bytes that hold a live value or workspace in that phase
  std::int64_t peak_bytes = 0;                           // maximum over phases
  MemoryPhase peak_phase = MemoryPhase::load;
  // The arena by what it holds, largest first: "weights", "moments", "activations", "workspace", ...
  std::vector<std::pair<std::string, std::int64_t>> contents;
};

std::vector<TierMemory> schedule_memory(const Schedule& schedule);

}  // namespace penstock
