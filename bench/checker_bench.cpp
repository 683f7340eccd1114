// What a schedule of the largest size costs to check, write, read and measure: a 72B model with 160 micro-batches, and
// with one sequence in up to 64 chunks, each of which reads the keys of all before it.
// Run: bench/checker_bench
#include <benchmark/benchmark.h>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/ir/graph.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/parameters.h"

namespace penstock {
namespace {

/// Qwen2.5-72B by its published figures.
ModelConfig large_model() {
  ModelConfig config;
  config.name = "72b";
  config.family = ModelFamily::qwen2;
  config.hidden = 8192;
  config.intermediate = 29568;
  config.decoder_layers = 80;
  config.heads = 64;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocabulary = 152064;
  config.max_positions = 32768;
  config.qkv_bias = true;
  config.rope_theta = 1e6;
  return config;
}

PolicyInput large_input() {
  PolicyInput input;
  input.model = make_model(large_model());
  input.sequence_length = 1024;
  input.sequences = 160;
  input.micro_batch = 1;
  input.hbm_bytes = std::int64_t{1} << 50;
  input.dram_bytes = std::int64_t{1} << 50;
  input.library_bytes = kLibraryWorkspaceBytes;
  input.host_threads = 16;
  input.parameters = preset_parameters("penstock");
  return input;
}

/// `group` micro-batches per layer visit; 0 = all.
Schedule large_schedule(int group) {
  PolicyInput input = large_input();
  input.parameters.group = group;
  return make_schedule(input);
}

const Schedule& prepared(std::int64_t group) {
  static std::int64_t made = -1;
  static Schedule schedule;
  if (made != group) schedule = large_schedule(static_cast<int>(made = group));
  return schedule;
}

void count(benchmark::State& state, const Schedule& schedule) {
  std::size_t accesses = 0;
  for (const Op& op : schedule.ops) accesses += op.reads.size() + op.writes.size();
  state.counters["ops"] = static_cast<double>(schedule.ops.size());
  state.counters["accesses"] = static_cast<double>(accesses);
  state.counters["edges"] = static_cast<double>(schedule.edges.size());
}

void check(benchmark::State& state) {
  const Schedule& schedule = prepared(state.range(0));
  for (auto _ : state)
    if (const auto faults = check_schedule(schedule, 1); !faults.empty()) state.SkipWithError(faults[0].text.c_str());
  count(state, schedule);
}
BENCHMARK(check)->ArgName("group")->Arg(0)->Arg(16)->Unit(benchmark::kMillisecond);

Schedule chunked_schedule(int chunks) {
  PolicyInput input = large_input();
  input.sequence_length = std::int64_t{8192} * chunks;
  input.sequences = 1;
  input.chunk_tokens = 8192;
  input.parameters.activations = TierKind::dram;
  return make_schedule(input);
}

void make_chunks(benchmark::State& state) {
  Schedule schedule;
  for (auto _ : state) schedule = chunked_schedule(static_cast<int>(state.range(0)));
  count(state, schedule);
}
BENCHMARK(make_chunks)->ArgName("chunks")->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);

void check_chunks(benchmark::State& state) {
  const Schedule schedule = chunked_schedule(static_cast<int>(state.range(0)));
  for (auto _ : state)
    if (const auto faults = check_schedule(schedule, 1); !faults.empty()) state.SkipWithError(faults[0].text.c_str());
  count(state, schedule);
}
BENCHMARK(check_chunks)->ArgName("chunks")->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);

void write(benchmark::State& state) {
  const Schedule& schedule = prepared(state.range(0));
  std::size_t bytes = 0;
  for (auto _ : state) bytes = schedule_text(schedule).size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(write)->ArgName("group")->Arg(0)->Unit(benchmark::kMillisecond);

void read(benchmark::State& state) {
  const std::string text = schedule_text(prepared(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(parse_schedule(text, "bench"));
}
BENCHMARK(read)->ArgName("group")->Arg(0)->Unit(benchmark::kMillisecond);

void hash(benchmark::State& state) {
  const Schedule& schedule = prepared(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(schedule_hash(schedule));
}
BENCHMARK(hash)->ArgName("group")->Arg(0)->Unit(benchmark::kMillisecond);

void memory(benchmark::State& state) {
  const Schedule& schedule = prepared(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(schedule_memory(schedule));
}
BENCHMARK(memory)->ArgName("group")->Arg(0)->Unit(benchmark::kMillisecond);

void implied(benchmark::State& state) {
  const Schedule& schedule = prepared(state.range(0));
  std::size_t edge = 0;
  for (auto _ : state) benchmark::DoNotOptimize(edge_implied(schedule, edge = (edge + 7919) % schedule.edges.size()));
}
BENCHMARK(implied)->ArgName("group")->Arg(0)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
