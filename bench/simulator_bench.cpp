// How fast the simulator is: ops per second of the engine, for schedules of the size of a 72B model with many
// micro-batches. The planner runs it thousands of times.
#include <benchmark/benchmark.h>

#include <string>

#include "sim/engine/steady_state.h"

namespace penstock::sim {
namespace {

struct Streamed {
  Schedule schedule;
  std::vector<OpCost> costs;

  int add(int lane, Work work, OpCost cost) {
    Op op;
    op.id = static_cast<int>(schedule.ops.size());
    op.name = "op " + std::to_string(op.id);
    op.lane = lane;
    op.work = std::move(work);
    schedule.ops.push_back(std::move(op));
    costs.push_back(cost);
    return static_cast<int>(schedule.ops.size()) - 1;
  }
  void edge(int from, int to, int distance = 0) { schedule.edges.push_back({from, to, distance}); }
};

OpCost flow(Resource link, double seconds, double rate, TrafficClass traffic) {
  OpCost cost;
  cost.fluid_seconds = seconds;
  cost.demand[link] = rate;
  cost.demand[kDram] = rate;
  cost.traffic = traffic;
  cost.launch_seconds = 4e-6;
  return cost;
}

/// Layer-major: per layer one upload, `micro_batches` forwards that leave an activation in DRAM; backward the same way,
/// with a recompute, and an optimizer on the host.
Streamed streamed(int layers, int micro_batches) {
  Streamed s;
  s.schedule.lanes = {{"compute", LaneKind::gpu_compute, 0},
                      {"h2d", LaneKind::copy_h2d, 0},
                      {"d2h", LaneKind::copy_d2h, 0},
                      {"adam", LaneKind::host, 0},
                      {"launch", LaneKind::launch, 0}};
  OpCost compute;
  compute.fluid_seconds = 0.02;
  compute.demand[kHbm] = 1e12;
  compute.launch_seconds = 60e-6;
  const OpCost weights = flow(kLinkH2d, 0.03, 50e9, TrafficClass::upload);
  const OpCost in = flow(kLinkH2d, 0.003, 50e9, TrafficClass::upload);
  const OpCost out = flow(kLinkD2h, 0.003, 50e9, TrafficClass::download);
  OpCost adam = flow(kCpuTraffic, 0.2, 100e9, TrafficClass::cpu);
  adam.threads = 12;
  std::vector<int> uploads, last_forward(static_cast<std::size_t>(layers)), gradients;
  for (int layer = 0; layer < layers; ++layer) {
    uploads.push_back(s.add(1, CopyWork{}, weights));
    if (layer >= 2) s.edge(last_forward[layer - 2], uploads.back());
    for (int m = 0; m < micro_batches; ++m) {
      const int forward = s.add(0, TemplateWork{}, compute);
      if (m == 0) s.edge(uploads.back(), forward);
      s.edge(forward, s.add(2, CopyWork{}, out));
      last_forward[layer] = forward;
    }
  }
  for (int layer = layers - 1; layer >= 0; --layer) {
    const int upload = s.add(1, CopyWork{}, weights);
    int backward = -1;
    for (int m = 0; m < micro_batches; ++m) {
      const int back = s.add(1, CopyWork{}, in);
      const int recompute = s.add(0, TemplateWork{LayerKind::decoder, Pass::recompute, Keep::input}, compute);
      s.edge(back, recompute);
      if (m == 0) s.edge(upload, recompute);
      backward = s.add(0, TemplateWork{LayerKind::decoder, Pass::backward, Keep::input}, compute);
    }
    gradients.push_back(s.add(2, CopyWork{}, weights));
    s.costs.back() = flow(kLinkD2h, 0.03, 50e9, TrafficClass::download);
    s.edge(backward, gradients.back());
  }
  for (int layer = 0; layer < layers; ++layer) {
    const int optimizer = s.add(3, OptimizerWork{}, adam);
    s.edge(gradients.back(), optimizer);
    s.edge(optimizer, uploads[layer], 1);
  }
  return s;
}

Capacities machine() {
  ResourceVector limits = unlimited_resources();
  limits[kLinkH2d] = limits[kLinkD2h] = 50e9;
  limits[kDram] = 150e9;
  limits[kHbm] = 4.8e12;
  Capacities capacities(limits, 12);
  for (int threads = 0; threads <= 12; ++threads)
    capacities.when(true, true, threads)[kLinkH2d] = capacities.when(true, true, threads)[kLinkD2h] = 40e9;
  return capacities;
}

void simulate_streamed(benchmark::State& state) {
  const Streamed s = streamed(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Capacities capacities = machine();
  double steps = 0;
  for (auto _ : state) {
    const SimulatedRun run = simulate_costs(s.schedule, s.costs, capacities, {64, state.range(2) != 0});
    benchmark::DoNotOptimize(run.step_seconds);
    // First step, warm-up, the period itself, then what is recorded and the two steps between.
    steps = static_cast<double>(1 + run.warmup_periods.size() + static_cast<std::size_t>(run.period_steps));
    if (state.range(2) != 0) steps += run.recorded_steps + 1;
    state.counters["step_seconds"] = run.step_seconds;
  }
  const double ops = steps * static_cast<double>(s.schedule.ops.size());
  state.counters["ops"] = static_cast<double>(s.schedule.ops.size());
  state.counters["simulated_ops"] = ops;
  state.counters["ops_per_second"] = benchmark::Counter(ops, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(simulate_streamed)
    ->ArgNames({"layers", "micro_batches", "timeline"})
    ->Args({28, 10, 0})
    ->Args({80, 160, 0})
    ->Args({80, 160, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock::sim
