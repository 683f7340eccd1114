#include "exec/runtime/host_work.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {
namespace {

void run_scalars(const BoundScalars& work, const BoundSchedule& program, int step) {
  double sum = 0;
  for (const double* partial : work.partials) sum += *partial;
  *work.out = make_step_scalars(program.source.hyper(step), program.source.number(step), sum, !work.partials.empty());
}

void run_report(const BoundReport& work, const BoundSchedule& program, int step) {
  if (!program.source.report) return;
  StepReport report;
  report.step = program.source.number(step);
  if (work.losses != nullptr)
    for (int m = 0; m < program.schedule->micro_batches; ++m) report.loss += work.losses[m];
  report.loss /= static_cast<double>(program.schedule->tokens_per_step());
  report.learning_rate = program.source.hyper(step).learning_rate;
  if (work.scalars != nullptr) {
    report.gradient_norm = work.scalars->norm;
    report.skipped = work.scalars->skip != 0;
  }
  report.at_ns = now_ns();
  program.source.report(report);
}

/// Moves `bytes` (read + written) through DRAM: copies between halves of a scratch block larger than the caches.
void pass_memory(std::int64_t bytes) {
  constexpr std::int64_t kHalf = std::int64_t{32} << 20;
  thread_local std::vector<std::byte> scratch(static_cast<std::size_t>(2 * kHalf));
  for (std::int64_t left = bytes / 2; left > 0; left -= kHalf)
    std::memcpy(scratch.data() + kHalf, scratch.data(), static_cast<std::size_t>(std::min(left, kHalf)));
}

void run_pass(const BoundHostPass& work) {
  const int threads = std::max(1, work.threads);
  const std::int64_t share = work.traffic_bytes / threads;
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([share] { pass_memory(share); });
  pass_memory(share);
}

}  // namespace

void run_host_work(const BoundOp& op, const BoundSchedule& program, int step) {
  struct Run {
    const BoundSchedule& program;
    int step;
    void operator()(const BoundCopy& w) const { std::memcpy(w.to, w.from, static_cast<std::size_t>(w.bytes)); }
    void operator()(const BoundOptimizer& w) const {
      adamw_host(w.states, w.gradient, w.gradient_type, w.elements, *w.scalars, w.threads);
    }
    void operator()(const BoundAccumulate& w) const {
      accumulate_host(w.part, w.part_type, w.sum, w.sum_type, w.first, w.elements, w.threads);
    }
    void operator()(const BoundFinish& w) const {
      const double partial = finish_gradient_host(w.sum, w.sum_type, w.tied, w.out, w.out_type, w.elements, w.threads);
      if (w.norm_partial != nullptr) *w.norm_partial = partial;
    }
    void operator()(const BoundScalars& w) const { run_scalars(w, program, step); }
    void operator()(const BoundInput& w) const { program.source.fill_tokens(step, w.tokens); }
    void operator()(const BoundReport& w) const { run_report(w, program, step); }
    void operator()(const BoundMemset& w) const { std::memset(w.at, 0, static_cast<std::size_t>(w.bytes)); }
    void operator()(const BoundHostPass& w) const { run_pass(w); }
    void operator()(const TemplateBinding&) const { throw std::logic_error("a template op on a host lane"); }
    void operator()(const BoundWait&) const { throw std::logic_error("a wait outside the launch lane"); }
  };
  std::visit(Run{program, step}, op.work);
}

}  // namespace penstock::exec
