// AdamW, gradient norm and host sums by number of threads, beside a DRAM triad: all are bound by memory, so the triad
// says what there is to reach. Counters: params/s, and GB/s (1e9) of bytes read plus bytes written; a write that first
// reads its cache line counts once. The label is the instruction set. Run: adamw_bench [--benchmark_filter=planes], with
// PENSTOCK_CPU_TARGET=avx2 before it for another one than the best.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "exec/numerics/cpu_target.h"
#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"
#include "exec/optimizer/thread_team.h"

namespace penstock::exec {
namespace {

// 1.4 GB of state and gradient: beyond any cache. No power of two: the planes of a model do not share cache sets
// either.
constexpr std::int64_t kElements = 100'001'792;
constexpr auto kCount = static_cast<std::size_t>(kElements);

void report(benchmark::State& state, std::int64_t bytes_per_element) {
  state.SetLabel(cpu_target_name(cpu_target()));
  const double elements = static_cast<double>(kElements) * static_cast<double>(state.iterations());
  state.counters["params/s"] = benchmark::Counter(elements, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(elements * static_cast<double>(bytes_per_element) * 1e-9, benchmark::Counter::kIsRate);
}

/// a = b + s c: 12 bytes an element.
void triad(benchmark::State& state) {
  std::vector<float> a(kCount, 1.0f), b(kCount, 2.0f), c(kCount, 3.0f);
  for (auto _ : state) {
    for_ranges(kElements, 1024, static_cast<int>(state.range(0)), [&](std::int64_t begin, std::int64_t end) {
      float* const to = a.data();
      const float *const left = b.data(), *const right = c.data();
      for (std::int64_t i = begin; i < end; ++i) to[i] = left[i] + 3.0f * right[i];
    });
    benchmark::ClobberMemory();
  }
  report(state, 12);
}

void adamw(benchmark::State& state, StateFormat format, ElementType gradient_type) {
  std::vector<std::uint16_t> weights(kCount, 0x3F80), low_bits(kCount), gradient_halves(kCount, 0x3A00);
  std::vector<float> master(kCount, 1.0f), m(kCount), v(kCount), gradient_floats(kCount, 1e-3f);
  OptimizerStates states;
  states.format = format;
  states.weights = weights.data();
  if (format == StateFormat::planes) states.low_bits = low_bits.data();
  if (format == StateFormat::master_and_copy) states.master = master.data();
  states.m = m.data();
  states.v = v.data();
  const void* const gradient =
      gradient_type == ElementType::bf16 ? static_cast<const void*>(gradient_halves.data()) : gradient_floats.data();
  const StepScalars scalars = make_step_scalars({}, 10, 1.0, true);
  for (auto _ : state)
    adamw_host(states, gradient, gradient_type, kElements, scalars, static_cast<int>(state.range(0)));
  // Parameter read and written, two fp32 moments read and written, gradient read. master_and_copy only writes its copy.
  const std::int64_t parameter = format == StateFormat::planes ? 8 : format == StateFormat::master_and_copy ? 10 : 4;
  report(state, parameter + 16 + element_bytes(gradient_type));
}

void finish_gradient(benchmark::State& state) {
  std::vector<float> sum(kCount, 1e-3f);
  std::vector<std::uint16_t> out(kCount);
  for (auto _ : state)
    benchmark::DoNotOptimize(finish_gradient_host(sum.data(), ElementType::fp32, nullptr, out.data(), ElementType::bf16,
                                                  kElements, static_cast<int>(state.range(0))));
  report(state, 6);
}

void sum_of_squares(benchmark::State& state) {
  const std::vector<std::uint16_t> values(kCount, 0x3A00);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        sum_of_squares_host(values.data(), ElementType::bf16, kElements, static_cast<int>(state.range(0))));
  report(state, 2);
}

void accumulate(benchmark::State& state) {
  const std::vector<std::uint16_t> part(kCount, 0x3A00);
  std::vector<float> sum(kCount);
  for (auto _ : state)
    accumulate_host(part.data(), ElementType::bf16, sum.data(), ElementType::fp32, false, kElements,
                    static_cast<int>(state.range(0)));
  report(state, 10);
}

/// AdamW as a run calls it: one layer after another, each after a pause in which the helpers have gone to sleep.
void adamw_layers(benchmark::State& state) {
  const std::int64_t layer = state.range(0) << 20;
  const auto pause = std::chrono::milliseconds(state.range(1));
  std::vector<std::uint16_t> weights(kCount, 0x3F80), low_bits(kCount), gradient(kCount, 0x3A00);
  std::vector<float> m(kCount), v(kCount);
  const StepScalars scalars = make_step_scalars({}, 10, 1.0, true);
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::int64_t at = 0, updated = 0;
  double busy_seconds = 0;
  for (auto _ : state) {
    std::this_thread::sleep_for(pause);
    OptimizerStates states;
    states.weights = weights.data() + at;
    states.low_bits = low_bits.data() + at;
    states.m = m.data() + at;
    states.v = v.data() + at;
    const auto start = std::chrono::steady_clock::now();
    adamw_host(states, gradient.data() + at, ElementType::bf16, layer, scalars, threads);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    state.SetIterationTime(seconds);
    busy_seconds += seconds;
    updated += layer;
    at = at + 2 * layer <= kElements ? at + layer : 0;
  }
  state.counters["params/s"] = benchmark::Counter(static_cast<double>(updated) / busy_seconds);
}

void by_threads(benchmark::internal::Benchmark* bench) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int threads = 1; threads < cores; threads *= 2) bench->Arg(threads);
  bench->Arg(cores)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(triad)->Apply(by_threads);
BENCHMARK_CAPTURE(adamw, planes_bf16_gradient, StateFormat::planes, ElementType::bf16)->Apply(by_threads);
BENCHMARK_CAPTURE(adamw, planes_fp32_gradient, StateFormat::planes, ElementType::fp32)->Apply(by_threads);
BENCHMARK_CAPTURE(adamw, master_and_copy, StateFormat::master_and_copy, ElementType::bf16)->Apply(by_threads);
BENCHMARK_CAPTURE(adamw, bf16_parameters, StateFormat::bf16, ElementType::bf16)->Apply(by_threads);
BENCHMARK(adamw_layers)
    ->ArgsProduct({{4, 16, 32}, {0, 5}})
    ->ArgNames({"Mi", "pause_ms"})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(finish_gradient)->Apply(by_threads);
BENCHMARK(sum_of_squares)->Apply(by_threads);
BENCHMARK(accumulate)->Apply(by_threads);

}  // namespace
}  // namespace penstock::exec

BENCHMARK_MAIN();
