// A TinySchedule whose ops have costs set by hand.
#pragma once

#include "sim/engine/steady_state.h"
#include "tests/shared/timeline/tiny_schedule.h"

namespace penstock::sim::test {

/// `seconds`, using nothing that is shared.
inline OpCost alone(double seconds) {
  OpCost cost;
  cost.fluid_seconds = seconds;
  return cost;
}

/// `amount` of one resource at `rate` per second at most.
inline OpCost flow(Resource resource, double amount, double rate, TrafficClass traffic = TrafficClass::none) {
  OpCost cost;
  cost.fluid_seconds = amount / rate;
  cost.demand[resource] = rate;
  cost.traffic = traffic;
  return cost;
}

class TinySimulation : public penstock::test::TinySchedule {
 public:
  /// The cost of an op just added; returns its id.
  int costs(int op, OpCost cost) {
    costs_.resize(schedule.ops.size());
    costs_[op] = cost;
    return op;
  }

  SimulatedRun run(const Capacities& capacities = Capacities(unlimited_resources())) const {
    return simulate_costs(schedule, costs_, capacities);
  }

  std::vector<OpCost> costs_;
};

/// Start and end of an op in the recorded step `step`.
inline const OpTime& time_of(const SimulatedRun& run, int step, int op) {
  const std::size_t ops = run.ops.size() / static_cast<std::size_t>(run.recorded_steps);
  return run.ops[static_cast<std::size_t>(step) * ops + static_cast<std::size_t>(op)];
}

}  // namespace penstock::sim::test
