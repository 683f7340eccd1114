#include "sim/engine/steady_state.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>

#include "shared/timeline/history.h"
#include "sim/engine/engine.h"

namespace penstock::sim {
namespace {

void check_costs(const Schedule& schedule, const std::vector<OpCost>& costs) {
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const OpCost& cost = costs[i];
    for (const double value :
         {cost.latency_seconds, cost.fluid_seconds, cost.sustained_extra_seconds, cost.launch_seconds})
      if (!std::isfinite(value) || value < 0)
        throw std::logic_error("simulate: the cost of " + schedule.ops[i].name + " is " + std::to_string(value));
  }
}

/// What is remembered of each step.
struct StepHistory {
  std::vector<double> periods;
  std::vector<std::vector<double>> busy;
  std::deque<EngineState> states;  // the last kLongestPeriod

  /// Steps since the same state; 0 if it is new.
  int period_of(const EngineState& state) const {
    const double tolerance = kStateTolerance * periods.back();
    for (std::size_t back = 1; back <= states.size(); ++back)
      if (state.repeats(states[states.size() - back], tolerance)) return static_cast<int>(back);
    return 0;
  }
};

}  // namespace

SimulatedRun simulate_costs(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities,
                            const SteadyOptions& options) {
  check_costs(schedule, costs);
  Engine engine(schedule, costs, capacities, last_backward_op(schedule), compute_lane(schedule));
  SimulatedRun run;
  StepHistory history;
  run.period_steps = 0;
  const int max_steps = std::max(2, options.max_steps);
  while (engine.steps() < max_steps && run.period_steps == 0) {
    history.periods.push_back(engine.run_to_boundary());
    history.busy.push_back(engine.busy_seconds());
    EngineState state = engine.state();
    run.period_steps = history.period_of(state);
    history.states.push_back(std::move(state));
    if (history.states.size() > kLongestPeriod) history.states.pop_front();
  }
  const auto steps = static_cast<int>(history.periods.size());
  const int steady = run.period_steps > 0 ? run.period_steps : steps / 2;
  run.first_step_seconds = history.periods.front();
  run.warmup_periods.assign(history.periods.begin() + std::min(1, steps - steady), history.periods.end() - steady);
  run.lane_busy_seconds.assign(schedule.lanes.size(), 0);
  for (int step = steps - steady; step < steps; ++step) {
    run.step_seconds += history.periods[step] / steady;
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane)
      run.lane_busy_seconds[lane] += history.busy[step][lane] / steady;
  }
  if (options.record_timeline) {
    run.recorded_steps = 3 * std::max(1, run.period_steps) + 1;
    engine.start_recording(run.recorded_steps);
    run.first_recorded_step = engine.first_recorded_step();
    run.ops = engine.finish_recording();
  }
  return run;
}

}  // namespace penstock::sim
