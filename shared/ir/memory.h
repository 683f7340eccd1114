// Bytes per tier and phase of the step.
//
// Everything is allocated once, as one arena per tier: arena_bytes is what a machine must have. phase_bytes says how
// much of it is in use, and so what a smarter placement could save at most. A byte is live in a phase of the step
//   - if it holds a state (it is initial): in every phase;
//   - if an op of that phase touches it;
//   - if it holds a value between two ops around that phase: written (or read) before, read after; also across the
//   step's end.
// load counts the states alone, first step the maximum of the step's phases (nothing is allocated later than the rest),
// save and resume the states and, in dram, one staging buffer for the largest layer's states.
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
  std::int64_t arena_bytes = 0;                           // highest end of any buffer: what is allocated
  std::array<std::int64_t, kMemoryPhases> phase_bytes{};  // bytes that hold a live value or workspace in that phase
  std::int64_t peak_bytes = 0;                            // maximum over phases
  MemoryPhase peak_phase = MemoryPhase::load;
  // The arena by what it holds, largest first: "weights" (bf16), "master" (fp32 or its low bits), "moments",
  // "gradients", "activations", "step inputs" (tokens, losses, scalars), "workspace", "keys and values" (of sequences
  // that are cut, and their gradient), "unused".
  std::vector<std::pair<std::string, std::int64_t>> contents;
};

/// One entry per tier of the schedule. Throws InputError if accesses overlap more finely than any real schedule's
/// (check_schedule refuses those). REQUIRES: a schedule whose indices and ranges are in bounds (parse_schedule and
/// check_schedule see to that). A byte that holds several things during the step is counted once in `contents`, as the
/// first of them that is not workspace; what no op touches (alignment, larger slots) is "unused".
std::vector<TierMemory> schedule_memory(const Schedule& schedule);

}  // namespace penstock
