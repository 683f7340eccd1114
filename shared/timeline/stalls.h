// Why the compute lane stood idle. The same code reads predicted and measured timelines (DESIGN.md section 5).
//
// Every idle interval of the (first) gpu_compute lane within the steady steps is walked back along the chain that bound
// it: the predecessor (edge, lane order, launch rule) that ended last before the op could start, then that one's own
// binding predecessor, until the interval is covered. Each part has one cause, and the parts add up to the total.
#pragma once

#include <array>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

enum class StallCause {
  weights,       // an upload of weights was running
  buffer,        // an eviction of activations had not freed its buffer
  gradient_slab, // a gradient had not left (download, host accumulation)
  optimizer,     // optimizer, norm or host pass had not finished
  activation,    // a kept activation was not back
  nvme,
  launch,        // the launch thread was in a wait, or had not enqueued yet
  input,         // tokens
  overhead,      // nothing of the schedule was running (measured: signalling; predicted: latencies)
};
inline constexpr int kStallCauses = 9;
const char* stall_cause_name(StallCause cause);

struct StallReport {
  double total_seconds = 0;                          // per steady step, mean
  std::array<double, kStallCauses> by_cause{};       // per steady step; sums to total_seconds
};
StallReport attribute_stalls(const Schedule& schedule, const Timeline& timeline);

/// The chain of ops that determines the end of one steady step, first to last.
struct CriticalPart {
  int op = 0;
  double seconds = 0;
};
std::vector<CriticalPart> critical_path(const Schedule& schedule, const Timeline& timeline);

/// Busy seconds of each lane per steady step (mean), indexed as schedule.lanes.
std::vector<double> lane_busy_seconds(const Schedule& schedule, const Timeline& timeline);

}  // namespace penstock
