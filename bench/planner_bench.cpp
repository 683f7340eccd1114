// How many schedules the planner evaluates per second: written and simulated (a candidate that the bounds let through),
// bounded, and measured for memory (what every candidate costs). Qwen2.5-72B on an H200 with 1.5 TB.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "sim/planner/search.h"
#include "sim/planner/step_bound.h"
#include "sim/simulate.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

Scenario scenario() { return read_scenario(source_folder() / "scenarios/qwen2.5-72b-h200-1.5tb.toml"); }

PolicyInput input(const Scenario& of, benchmark::State& state) {
  PolicyInput result = of.policy_input();
  Candidate candidate{static_cast<int>(state.range(0)), of.policy};
  candidate.parameters.activations = TierKind::dram;
  apply(candidate, of, result);
  return result;
}

void evaluate(benchmark::State& state) {
  const Scenario of = scenario();
  const PolicyInput in = input(of, state);
  std::size_t ops = 0;
  for (auto _ : state) {
    const Schedule schedule = make_schedule(in);
    benchmark::DoNotOptimize(simulate(schedule, of.machine, {64, false, false}).step_seconds);
    ops = schedule.ops.size();
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(evaluate)->Arg(4)->Arg(16)->Arg(40)->Unit(benchmark::kMillisecond);

void bound(benchmark::State& state) {
  const Scenario of = scenario();
  const PolicyInput in = input(of, state);
  for (auto _ : state) benchmark::DoNotOptimize(step_bound(in, of.machine).seconds());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bound)->Arg(16)->Unit(benchmark::kMicrosecond);

void arenas(benchmark::State& state) {
  const Scenario of = scenario();
  const PolicyInput in = input(of, state);
  for (auto _ : state) benchmark::DoNotOptimize(arena_bytes(in).hbm);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(arenas)->Arg(4)->Arg(16)->Unit(benchmark::kMicrosecond);

void whole_search(benchmark::State& state) {
  const Scenario of = scenario();
  SearchOptions options;
  options.front = false;
  std::int64_t evaluated = 0;
  for (auto _ : state) evaluated = search(of, default_space(of), options).evaluated;
  state.counters["evaluated"] = static_cast<double>(evaluated);
}
BENCHMARK(whole_search)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace penstock::sim
