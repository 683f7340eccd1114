// A timeline with the schedule's dependencies at hand: who ran when, and what each op had to wait for.
// Shared by stall attribution, the critical path and the trace's flow arrows.
#pragma once

#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

/// One op of one step. op < 0: none.
struct Instance {
  int step = 0;
  int op = -1;

  explicit operator bool() const { return op >= 0; }
};

/// `schedule` and `timeline` must outlive it. The timeline's rows ascend by step, then op.
class History {
 public:
  History(const Schedule& schedule, const Timeline& timeline);

  const Schedule& schedule() const { return schedule_; }
  /// nullptr if that op was not recorded.
  const OpTime* find(Instance instance) const;

  /// Of the data dependencies of an op (edges, the op before it on its lane; for a wait, what it awaits), the one that
  /// ended last; the lower id of equals. None if none of them was recorded.
  Instance last_dependency(Instance instance) const;
  /// For a GPU op: the last wait that the launch thread had to pass before it, in this or an earlier step. None for
  /// other ops, or if there are no waits.
  Instance wait_before(Instance instance) const;
  /// The later of the two.
  Instance binding(Instance instance) const;

  /// Recorded ops of a lane in the order of execution.
  std::vector<Instance> lane_instances(int lane) const;

 private:
  struct Dependency {
    int from = 0;
    int distance = 0;
  };

  const Schedule& schedule_;
  int first_step_ = 0;
  const std::vector<OpTime>& times_;
  std::vector<std::size_t> step_begin_;  // rows of step first_step_ + i: step_begin_[i] .. step_begin_[i + 1]
  std::vector<std::size_t> begin_;       // dependencies of op i: begin_[i] .. begin_[i + 1]
  std::vector<Dependency> dependencies_;
  std::vector<int> waits_;  // ids
};

/// From where to where steady state is looked at: ends of the last backward op.
struct SteadyWindow {
  double begin = 0, end = 0;
  int periods = 0;  // 0: fewer than two boundaries
  int last_step = 0;
};
SteadyWindow steady_window(const Schedule& schedule, const Timeline& timeline);

/// The lane of the last backward op; others of kind gpu_compute run optimizers beside it. -1 if there is none.
int compute_lane(const Schedule& schedule);

}  // namespace penstock
