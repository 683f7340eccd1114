// How long the compute lane stood idle in each step, and of how long a period, while the run goes on: from the end of
// the last backward op of the step before (of the first step, from the begin of the run) to that of its own, as
// shared/timeline/stalls.h counts it in a timeline. It takes a few numbers whatever the steps are, so that every step of
// a run is metered.
//
// Thread safety: one thread adds. Who knows that a step's last backward op was added may ask for that step, until the
// one kKept steps later is added.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock::exec {

/// Of one step. Its share is of the period, which is not the time between two reports.
struct Stalls {
  double seconds = -1;  // in which the lane stood idle; negative: not known
  double period_seconds = 0;

  double share() const { return period_seconds > 0 ? seconds / period_seconds : 0; }
};

class StallMeter {
 public:
  static constexpr int kKept = 4;

  /// Meters nothing.
  StallMeter() = default;
  /// Nothing where the schedule has no op on a GPU's compute lane.
  explicit StallMeter(const Schedule& schedule);
  /// The lane is idle from here on, by the clock of what is added. REQUIRES: nothing was added.
  void begin(std::int64_t ns) { idle_since_ = period_since_ = ns; }

  /// Ops of the compute lane in the order in which they run in a step.
  const std::vector<int>& lane() const { return lane_; }
  bool meters(int op) const { return !is_on_lane_.empty() && is_on_lane_[static_cast<std::size_t>(op)] != 0; }
  /// The op whose end is the step's; -1: there is none.
  int last_backward() const { return last_backward_; }

  /// An op ran. Ops of other lanes are passed over. REQUIRES: those of the lane in their order, step after step.
  void add(int step, int op, std::int64_t start_ns, std::int64_t end_ns);
  Stalls stalls(int step) const { return stalls_[static_cast<std::size_t>(step % kKept)]; }

 private:
  std::vector<int> lane_;
  std::vector<char> is_on_lane_;  // by op
  int last_backward_ = -1;
  std::int64_t idle_since_ = 0, idle_ns_ = 0, period_since_ = 0;
  std::array<Stalls, kKept> stalls_{};  // [step % kKept]
};

}  // namespace penstock::exec
