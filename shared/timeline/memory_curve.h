// Live bytes over time: what reports draw and list and what traces have as counters.
//
// One computation serves every peak that is shown, so that a chart and a table cannot differ. It counts what is live at
// one moment. schedule_memory (shared/ir/memory.h) counts what is live at *some* moment of a phase: more, since a phase
// lasts; and the arena, which is what a machine must have, is no less than either.
#pragma once

#include <array>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

/// `bytes` are live from `seconds` until the next point.
struct MemoryPoint {
  double seconds = 0;
  double bytes = 0;

  bool operator==(const MemoryPoint&) const = default;
};

/// One curve per tier, indexed as schedule.tiers, ascending in time, over all recorded steps. A byte is live from the
/// start of the op that writes it to the end of the last op that reads it before it is written anew; bytes that hold
/// the model's state between steps (Schedule::initial) always are. No byte counts twice, even where the clocks of a
/// measured timeline let its next life begin before the last reader has ended: so no more than the arena is ever live.
/// REQUIRES: a complete timeline of a schedule that check_schedule accepts, row step * ops + op (compare_timelines
/// checks the timeline).
std::vector<std::vector<MemoryPoint>> memory_curves(const Schedule& schedule, const Timeline& timeline);

/// One tier between two moments.
struct LiveMemory {
  std::vector<MemoryPoint> curve;       // the first point at `begin`
  double peak_bytes = 0;                // the highest of the curve
  double peak_seconds = 0;              // when it is first reached
  std::array<double, 4> phase_bytes{};  // by Phase: the highest while an op of that phase runs; 0 if none does
};
/// Indexed as schedule.tiers. REQUIRES: as memory_curves; begin <= end.
std::vector<LiveMemory> live_memory(const Schedule& schedule, const Timeline& timeline, double begin, double end);

/// At most `most` points: equal slices of time, each with its largest value, so that no peak is lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, std::size_t most);

}  // namespace penstock
