#include "exec/runtime/host_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"

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

/// The one way by which ids reach a template, on every backend: none that is not in the vocabulary stays in the buffer,
/// not even when the run fails by it, since copies and kernels that were enqueued before may still run then.
void run_input(const BoundInput& work, const BoundSchedule& program, int step) {
  program.source.fill_tokens(step, work.tokens);
  std::int32_t* const end = work.tokens + work.sequences * work.row;
  std::int32_t* const bad =
      std::find_if(work.tokens, end, [&](std::int32_t id) { return id < 0 || id >= work.vocabulary; });
  if (bad == end) return;
  const std::int64_t at = bad - work.tokens;
  const std::int32_t id = *bad;
  std::fill(work.tokens, end, 0);
  throw InputError(
      fmt::format("the data's token {} of sequence {} in step {} (tokens and sequences counted from 0) is {}; the "
                  "model's vocabulary has ids from 0 to {}",
                  at % work.row, at / work.row, program.source.number(step), id, work.vocabulary - 1));
}

void run_copy(const BoundCopy& work) {
  static constexpr std::int64_t kPage = 4096;
  std::byte *const from = work.from.address(), *const to = work.to.address();
  const auto bytes = static_cast<std::size_t>(work.from.bytes);
  if (from == nullptr) return work.from.memory->read(work.from.offset, {to, bytes});
  if (to == nullptr) return work.to.memory->write(work.to.offset, {from, bytes});
  for_ranges(work.from.bytes, kPage, work.threads, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

/// Moves traffic_bytes (read + written) through DRAM: copies between halves of a scratch block larger than the caches.
void run_pass(const BoundHostPass& work) {
  static constexpr std::int64_t kHalf = std::int64_t{32} << 20;
  for_ranges(work.traffic_bytes / 2, kHalf / 32, work.threads, [](std::int64_t begin, std::int64_t end) {
    const std::int64_t half = std::min(kHalf, end - begin);
    thread_local std::vector<std::byte> scratch;
    if (static_cast<std::int64_t>(scratch.size()) < 2 * half) scratch.resize(static_cast<std::size_t>(2 * half));
    for (std::int64_t at = begin; at < end; at += half)
      std::memcpy(scratch.data() + half, scratch.data(), static_cast<std::size_t>(std::min(half, end - at)));
  });
}

}  // namespace

void run_host_work(const BoundOp& op, const BoundSchedule& program, int step) {
  struct Run {
    const BoundSchedule& program;
    int step;
    void operator()(const BoundCopy& w) const { run_copy(w); }
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
    void operator()(const BoundInput& w) const { run_input(w, program, step); }
    void operator()(const BoundReport& w) const { run_report(w, program, step); }
    void operator()(const BoundHostPass& w) const { run_pass(w); }
    void operator()(const TemplateBinding&) const { throw std::logic_error("a template op on a host lane"); }
    void operator()(const BoundWait&) const { throw std::logic_error("a wait outside the launch lane"); }
  };
  std::visit(Run{program, step}, op.work);
}

}  // namespace penstock::exec
