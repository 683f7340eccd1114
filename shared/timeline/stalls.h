// Why the compute lane stood idle. The same code reads predicted and measured timelines (docs/design.md, "Stalls").
//
// Every idle interval of the compute lane (that of the last backward op) within the steady steps is walked back along
// the chain that bound it: the data dependency (edge, lane order) that ended last before the op could start, then that
// one's own, until the interval is covered. Each part has one cause, and the parts add up to the total.
//
// Between the end of an op's last dependency and its start nothing held it but the launch thread: up to the end of the
// wait before it, that part is `launch` (what the data did not hold up, the wait did); the rest is `launch` in a
// predicted timeline, where nothing else delays an op, and `overhead` in a measured one. A wait for an upload that the
// op needs anyway is therefore `weights`. Clocks that disagree by microseconds are harmless: a dependency that seems to
// end after its successor's start is cut there.
#pragma once

#include <array>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

enum class StallCause {
  weights,        // an upload of weights was running
  buffer,         // an eviction of activations had not freed its buffer
  gradient_slab,  // a gradient had not left (download, host accumulation)
  optimizer,      // optimizer, norm or host pass had not finished
  activation,     // a kept activation was not back
  nvme,
  launch,    // the launch thread was in a wait, or had not enqueued yet
  input,     // tokens
  overhead,  // nothing of the schedule was running (measured: signalling; predicted: latencies)
};
inline constexpr int kStallCauses = 9;
const char* stall_cause_name(StallCause cause);

struct StallReport {
  double total_seconds = 0;                     // per steady step, mean
  std::array<double, kStallCauses> by_cause{};  // per steady step; sums to total_seconds
};
StallReport attribute_stalls(const Schedule& schedule, const Timeline& timeline);

/// The chain of ops that determines the end of one steady step, first to last.
struct CriticalPart {
  int op = 0;
  double seconds = 0;
};
std::vector<CriticalPart> critical_path(const Schedule& schedule, const Timeline& timeline);

/// Busy seconds of each lane per steady step: durations of the ops of these steps, mean; indexed as schedule.lanes.
std::vector<double> lane_busy_seconds(const Schedule& schedule, const Timeline& timeline);

}  // namespace penstock
