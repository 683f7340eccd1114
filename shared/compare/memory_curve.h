// Live bytes over time: what the report draws beneath the timelines.
#pragma once

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
/// the model's state between steps (Schedule::initial) always are.
/// REQUIRES: a complete timeline of a schedule that check_schedule accepts, row step * ops + op (compare_timelines
/// checks the timeline).
std::vector<std::vector<MemoryPoint>> memory_curves(const Schedule& schedule, const Timeline& timeline);

/// At most `most` points: equal slices of time, each with its largest value, so that no peak is lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, std::size_t most);

}  // namespace penstock
