// When each op of the leading steps started and ended, by the steady clock, and how long the compute lane stood idle in
// every one. Memory for all of it is taken before the run; each (step, op) has its own slot, written once by whoever
// executes the op, so that recording is two clock reads and one store.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "exec/runtime/stall_meter.h"
#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

/// Nanoseconds of CLOCK_MONOTONIC.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Recorder {
 public:
  Recorder() = default;
  /// Records run steps [0, steps).
  Recorder(const Schedule& schedule, int steps)
      : ops_(schedule.ops.size()), steps_(steps), spans_(ops_ * static_cast<std::size_t>(steps)), meter_(schedule) {}

  bool records(int step) const { return step < steps_; }
  void record(int step, int op, std::int64_t start_ns, std::int64_t end_ns) {
    if (records(step))
      spans_[static_cast<std::size_t>(step) * ops_ + static_cast<std::size_t>(op)] = {start_ns, end_ns};
  }
  /// Ops of the first `steps` run steps that were recorded, ordered by (step, op); `first_step` is the number of run
  /// step 0. REQUIRES: nobody records any more.
  std::vector<OpTime> times(int first_step, int steps) const;
  int steps() const { return steps_; }
  StallMeter& meter() { return meter_; }
  /// What a run recorded that went on where this one ended. REQUIRES: all that this one records was run.
  void append(Recorder next);

 private:
  struct Span {
    std::int64_t start = 0, end = 0;
  };
  std::size_t ops_ = 0;
  int steps_ = 0;
  std::vector<Span> spans_;
  StallMeter meter_;
};

}  // namespace penstock::exec
