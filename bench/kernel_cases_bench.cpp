// Every template op of the table of kernel cases on the host backend: what one execution takes, and what of it each kernel
// takes (counters, microseconds). Ratios within one run are what counts.
#include <benchmark/benchmark.h>

#include <map>
#include <string>

#include "exec/host/templates.h"
#include "tests/exec/kernel_cases.h"

namespace penstock::exec {
namespace {

void run_op(benchmark::State& state, const KernelCase& c, const CaseOp& op) {
  const BoundCase bound(c, op);
  KernelClock clock;
  std::map<KernelId, double> seconds;
  run_template_host(bound.binding(), &clock);
  for (auto _ : state) {
    run_template_host(bound.binding(), &clock);
    for (const KernelMark& mark : clock.marks()) seconds[mark.kernel] += mark.seconds;
  }
  for (const auto& [kernel, total] : seconds)
    state.counters[std::string(kernel_name(kernel))] = 1e6 * total / static_cast<double>(state.iterations());
}

int run(int argc, char** argv) {
  for (const KernelCase& c : kernel_cases())
    for (const CaseOp& op : case_ops(c))
      benchmark::RegisterBenchmark((c.name + "/" + op.name()).c_str(),
                                   [&c, op](benchmark::State& state) { run_op(state, c, op); });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace penstock::exec

int main(int argc, char** argv) { return penstock::exec::run(argc, argv); }
