// Runs the engine until the schedule repeats itself.
//
// At each step boundary the state of the engine relative to that boundary is compared with the states at the boundaries
// before: same op on every lane at the same point of its execution (within kStateTolerance of the step's length), same
// lead of the launch thread, same duty. If it equals the one p steps ago, everything that follows has period p, and the
// step time is the mean over those p steps. Most schedules have p = 1; rings whose slots do not divide the step
// evenly, or ops that shift between two alignments, give more.
//
// If nothing repeats within max_steps the step time is the mean over the last half of the steps, and period_steps is 0.
#pragma once

#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"
#include "sim/engine/resources.h"

namespace penstock::sim {

inline constexpr double kStateTolerance = 1e-12;  // of the step's length
/// Longest period that is looked for.
inline constexpr int kLongestPeriod = 16;

struct SteadyOptions {
  int max_steps = 64;
  bool record_timeline = true;
};

struct SimulatedRun {
  double step_seconds = 0;
  int period_steps = 1;  // 0: none found
  double first_step_seconds = 0;
  std::vector<double> warmup_periods;     // between the boundaries before the state that repeats
  std::vector<double> lane_busy_seconds;  // per steady step, mean
  int first_recorded_step = 0;
  int recorded_steps = 0;  // three periods and one step
  std::vector<OpTime> ops;
};

/// The seam between costs and time: tests set costs directly. REQUIRES: costs.size() == schedule.ops.size(), all of
/// them finite and not negative.
SimulatedRun simulate_costs(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities,
                            const SteadyOptions& options = {});

}  // namespace penstock::sim
