// A schedule as the engine walks it: flat arrays, nothing but indices.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/ir/schedule.h"
#include "sim/engine/resources.h"

namespace penstock::sim {

/// Lists of ints, one after the other: list i is items[begin[i]] .. items[begin[i + 1]].
struct IndexLists {
  std::vector<std::int32_t> begin, items;
};

struct FlatSchedule {
  /// REQUIRES: one cost per op; edges and waits with valid ids.
  FlatSchedule(const Schedule& schedule, const std::vector<OpCost>& costs);

  int ops = 0;
  int lanes = 0;                           // as schedule.lanes; launch lanes stay empty
  std::vector<std::int32_t> lane_of;       // -1 for waits
  IndexLists lane_ops;                     // ops of each lane in order
  IndexLists same_step, next_step;         // successors by distance
  std::vector<std::int32_t> predecessors;  // edges of distance 0 into each op (a wait counts the op that it awaits)
  std::vector<std::int32_t> predecessors_before;  // edges of distance 1

  // The launch thread: segments of launches, a wait between each two. Op i is launched launch_offset[i] after the start
  // of its segment; launches of a segment take segment_seconds; segment k ends with waits[k].
  std::vector<std::int32_t> segment_of;  // -1 for ops that are not launched; of a wait: the segment that it ends
  std::vector<double> launch_offset;
  std::vector<double> segment_seconds;
  std::vector<std::int32_t> waits;  // segment_seconds.size() - 1 of them
};

}  // namespace penstock::sim
