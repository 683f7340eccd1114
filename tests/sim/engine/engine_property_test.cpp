// What holds for every schedule, tried on random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "sim/cost/bounds.h"
#include "tests/sim/tiny_simulation.h"

namespace penstock::sim::test {
namespace {

constexpr double kRounding = 1e-9;

/// A random schedule that cannot deadlock: edges go from lower to higher ids within the step, anywhere across steps.
struct RandomSimulation : TinySimulation {
  explicit RandomSimulation(unsigned seed, bool contended) : random(seed) {
    add_lane("worker", LaneKind::host);
    const int count = 8 + static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) {
      const int id = add_op(i);
      costs(id, random_cost(contended));
    }
    costs(compute("last"), alone(uniform(0.1, 1)));
    for (int to = 1; to <= count; ++to)
      for (int k = static_cast<int>(random() % 3); k > 0; --k)
        schedule.edges.push_back({static_cast<int>(random() % to), to, 0});
    for (int k = 0; k < count / 3; ++k)
      schedule.edges.push_back({static_cast<int>(random() % (count + 1)), static_cast<int>(random() % (count + 1)), 1});
  }

  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); }

  int add_op(int i) {
    const std::string name = "op " + std::to_string(i);
    const int kind = static_cast<int>(random() % 6);
    if (kind == 5 && i > 0)
      return op(name, kLaunch, WaitWork{static_cast<int>(random() % i), static_cast<int>(random() % 2)});
    static constexpr int kLanes[] = {kCompute, kH2d, kD2h, kHost, 5, kCompute};
    return op(name, kLanes[kind], kind == 3 || kind == 4 ? Work(ReportWork{}) : Work(StepScalarsWork{}));
  }

  OpCost random_cost(bool contended) {
    OpCost cost;
    if (std::holds_alternative<WaitWork>(schedule.ops.back().work)) {
      cost.latency_seconds = uniform(0, 0.1);
      return cost;
    }
    cost = alone(uniform(0, 2));
    if (random() % 2 == 0) cost.latency_seconds = uniform(0, 0.2);
    if (is_gpu(schedule.lanes[schedule.ops.back().lane].kind)) cost.launch_seconds = uniform(0, 0.1);
    if (contended)
      for (double& demand : cost.demand) demand = random() % 3 == 0 ? uniform(0, 1) : 0;
    return cost;
  }

  std::mt19937 random;
};

ResourceVector ones() {
  ResourceVector each;
  each.fill(1);
  return each;
}

void expect_order(const RandomSimulation& tiny, const SimulatedRun& run, unsigned seed) {
  std::map<int, double> lane_free;
  for (int step = 0; step < run.recorded_steps; ++step) {
    for (const Op& op : tiny.schedule.ops) {
      const OpTime& time = time_of(run, step, op.id);
      ASSERT_GE(time.end, time.start - kRounding);
      const auto free = lane_free.find(op.lane);
      if (free != lane_free.end()) {
        ASSERT_GE(time.start, free->second - kRounding) << "seed " << seed << ": " << op.name << " overlaps";
      }
      lane_free[op.lane] = time.end;
    }
    for (const Edge& edge : tiny.schedule.edges) {
      if (step < edge.distance) continue;
      // A wait begins when the thread arrives; what it waits for holds its end.
      const OpTime& to = time_of(run, step, edge.to);
      const bool waits = std::holds_alternative<WaitWork>(tiny.schedule.ops[edge.to].work);
      ASSERT_GE(waits ? to.end : to.start, time_of(run, step - edge.distance, edge.from).end - kRounding)
          << "seed " << seed << ": edge " << edge.from << " -> " << edge.to;
    }
    int wait = -1;
    for (const Op& op : tiny.schedule.ops) {
      if (const auto* work = std::get_if<WaitWork>(&op.work)) {
        wait = op.id;
        if (step < work->distance) continue;
        ASSERT_GE(time_of(run, step, op.id).end, time_of(run, step - work->distance, work->op).end - kRounding);
      } else if (wait >= 0 && is_gpu(tiny.schedule.lanes[op.lane].kind)) {
        ASSERT_GE(time_of(run, step, op.id).start, time_of(run, step, wait).end - kRounding)
            << "launched before its wait";
      }
    }
  }
}

/// Between any two moments the ops that lie wholly between them cannot have used more than a resource gives.
void expect_within_capacity(const RandomSimulation& tiny, const SimulatedRun& run, unsigned seed) {
  std::vector<OpTime> times(run.ops.begin(),
                            run.ops.begin() + static_cast<std::ptrdiff_t>(2 * tiny.schedule.ops.size()));
  std::sort(times.begin(), times.end(), [](const OpTime& a, const OpTime& b) { return a.end < b.end; });
  for (const OpTime& first : times) {
    ResourceVector used{};
    for (const OpTime& last : times) {
      if (last.start < first.start) continue;
      const OpCost& cost = tiny.costs_[last.op];
      for (int r = 0; r < kResources; ++r) {
        used[r] += cost.demand[r] * cost.fluid_seconds;
        ASSERT_LE(used[r], last.end - first.start + kRounding) << "seed " << seed << ", " << resource_name(r);
      }
    }
  }
}

TEST(EngineProperties, RandomSchedulesObeyOrderCapacityAndBounds) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const RandomSimulation tiny(seed, true);
    const Capacities capacities(ones());
    const SimulatedRun run = tiny.run(capacities);
    expect_order(tiny, run, seed);
    expect_within_capacity(tiny, run, seed);
    if (HasFatalFailure()) return;
    // Not faster than the busiest lane or resource; not slower than everything one after the other.
    const Bounds bounds = same_traffic_bound(tiny.schedule, tiny.costs_, capacities);
    double serial = 0;
    for (const OpCost& cost : tiny.costs_) serial += cost.solo_seconds() + cost.launch_seconds;
    EXPECT_GE(run.step_seconds, bounds.same_traffic_seconds * (1 - kRounding)) << "seed " << seed;
    EXPECT_LE(run.step_seconds, serial * (1 + kRounding)) << "seed " << seed;
  }
}

// Without contention the end of every op is a maximum of sums of durations: shorter ops never make anything later.
// (With contention they can: an earlier start may take a share from what is critical.)
TEST(EngineProperties, FasterOpsNeverMakeAnUncontendedStepSlower) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomSimulation tiny(seed, false);
    const SimulatedRun before = tiny.run();
    for (OpCost& cost : tiny.costs_)
      if (tiny.random() % 2 == 0) cost.fluid_seconds *= tiny.uniform(0.3, 1);
    const SimulatedRun after = tiny.run();
    EXPECT_LE(after.step_seconds, before.step_seconds * (1 + kRounding)) << "seed " << seed;
    EXPECT_LE(after.first_step_seconds, before.first_step_seconds * (1 + kRounding)) << "seed " << seed;
  }
}

TEST(EngineProperties, TheSameInputGivesTheSameBits) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const SimulatedRun one = RandomSimulation(seed, true).run(Capacities(ones()));
    const SimulatedRun two = RandomSimulation(seed, true).run(Capacities(ones()));
    EXPECT_EQ(one.step_seconds, two.step_seconds);
    EXPECT_EQ(one.ops, two.ops);
  }
}

TEST(EngineProperties, RandomSchedulesReachASteadyState) {
  int steady = 0;
  for (unsigned seed = 0; seed < 200; ++seed)
    steady += RandomSimulation(seed, true).run(Capacities(ones())).period_steps > 0;
  EXPECT_GE(steady, 195);
}

}  // namespace
}  // namespace penstock::sim::test
