#include "exec/runtime/host_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "exec/optimizer/adamw.h"
#include "exec/optimizer/norm.h"
#include "exec/optimizer/step_scalars.h"
#include "exec/optimizer/thread_team.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"
#include "shared/ignored_label.h"

namespace penstock::exec {
namespace {

void run_scalars(const BoundScalars& work, const BoundSchedule& bound, int step) {
  double sum = 0;
  for (const double* partial : work.partials) sum += *partial;
  *work.out = make_step_scalars(bound.source.hyper(step), bound.source.number(step), sum, !work.partials.empty());
  if (work.trained_tokens != nullptr) skip_untrained(*work.out, *work.trained_tokens);
}

void add_losses(const double* losses, const BoundSchedule& bound, StepReport& report) {
  const int numbers = loss_numbers(bound.model->config), micro_batches = bound.schedule->micro_batches;
  for (int m = 0; m < micro_batches; ++m) report.loss += losses[numbers * m];
  if (numbers == 1) return;
  double sum = 0;
  for (int m = 0; m < micro_batches; ++m) sum += losses[numbers * m + 1];
  report.balance_loss = sum / micro_batches;
}

void run_report(const BoundReport& work, const BoundSchedule& bound, int step, const Stalls& stalls) {
  if (!bound.source.report) return;
  StepReport report;
  report.step = bound.source.number(step);
  if (work.losses != nullptr) add_losses(work.losses, bound, report);
  const double trained =
      work.trained_tokens != nullptr ? *work.trained_tokens : static_cast<double>(bound.schedule->tokens_per_step());
  report.trained_tokens = static_cast<std::int64_t>(trained);
  if (trained > 0) report.loss /= trained;
  report.learning_rate = bound.source.hyper(step).learning_rate;
  if (work.scalars != nullptr) {
    report.gradient_norm = work.scalars->norm;
    report.skipped = work.scalars->skip != 0;
  }
  report.stalls = stalls;
  report.at_ns = now_ns();
  bound.source.report(report);
}

/// The one way by which data reach a template, on every backend: nothing that is wrong stays in the buffers, not even
/// when the run fails by it, since copies and kernels that were enqueued before may still run then.
class StepInput {
 public:
  StepInput(const BoundInput& work, const BoundSchedule& bound, int step)
      : work_(work),
        rows_(work.rows),
        places_(work.batch.tokens()),
        tokens_(work.batch.sequences * work.batch.token_row()),
        number_(bound.source.number(step)) {
    bound.source.fill_rows(step, rows_);
  }

  void check() const {
    const auto is_id = [this](std::int32_t id) { return id >= 0 && id < work_.vocabulary; };
    if (const std::int64_t at = first(rows_.tokens, tokens_, is_id); at < tokens_) refuse_id("token", rows_.tokens, at);
    if (rows_.labels == nullptr) return;
    const auto is_label = [&](std::int32_t label) { return label == kIgnoredLabel || is_id(label); };
    if (const std::int64_t at = first(rows_.labels, places_, is_label); at < places_)
      refuse_id("label", rows_.labels, at);
    for (std::int64_t at = 0; at < places_; ++at)
      if (!begins_rightly(at)) refuse_start(at);
    *work_.trained_tokens =
        static_cast<double>(places_ - std::count(rows_.labels, rows_.labels + places_, kIgnoredLabel));
  }

 private:
  template <class Right>
  static std::int64_t first(const std::int32_t* values, std::int64_t count, const Right& right) {
    return std::find_if_not(values, values + count, right) - values;
  }

  /// Documents lie one behind the other: a place begins one, or belongs to that of the place before it.
  bool begins_rightly(std::int64_t at) const {
    const std::int64_t place = at % work_.batch.sequence_length;
    const std::int32_t start = rows_.document_starts[at];
    return start == place || (place > 0 && start == rows_.document_starts[at - 1]);
  }

  void clear() const {
    std::fill_n(rows_.tokens, tokens_, 0);
    if (rows_.labels == nullptr) return;
    std::fill_n(rows_.labels, places_, kIgnoredLabel);
    std::fill_n(rows_.document_starts, places_, 0);
    *work_.trained_tokens = 0;
  }

  [[noreturn]] void refuse_id(const char* what, const std::int32_t* ids, std::int64_t at) const {
    const std::int64_t row = ids == rows_.tokens ? work_.batch.token_row() : work_.batch.sequence_length;
    const std::int32_t id = ids[at];
    clear();
    throw InputError(
        fmt::format("the data's {} {} of sequence {} in step {} ({}s and sequences counted from 0) is {}; the model's "
                    "vocabulary has ids from 0 to {}",
                    what, at % row, at / row, number_, what, id, work_.vocabulary - 1));
  }
  [[noreturn]] void refuse_start(std::int64_t at) const {
    const std::int64_t length = work_.batch.sequence_length;
    const std::int32_t start = rows_.document_starts[at];
    clear();
    throw InputError(
        fmt::format("the data's place {} of sequence {} in step {} (both counted from 0) says that its document begins "
                    "at place {}; expected {}, or where the document of the place before it begins",
                    at % length, at / length, number_, start, at % length));
  }

  const BoundInput& work_;
  const StepRows& rows_;
  const std::int64_t places_, tokens_;  // how many
  const std::int64_t number_;
};

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

void run_host_work(const BoundOp& op, const BoundSchedule& bound, int step, const Stalls& stalls) {
  struct Run {
    const BoundSchedule& bound;
    int step;
    const Stalls& stalls;
    void operator()(const BoundCopy& w) const { run_copy(w); }
    void operator()(const BoundOptimizer& w) const {
      adamw_host(w.states, w.gradient, w.gradient_type, w.elements, *w.scalars, w.threads, w.undecayed);
    }
    void operator()(const BoundAccumulate& w) const {
      accumulate_host(w.part, w.part_type, w.sum, w.sum_type, w.first, w.elements, w.threads);
    }
    void operator()(const BoundFinish& w) const {
      const double partial = finish_gradient_host(w.sum, w.sum_type, w.tied, w.out, w.out_type, w.elements, w.threads);
      if (w.norm_partial != nullptr) *w.norm_partial = partial;
    }
    void operator()(const BoundScalars& w) const { run_scalars(w, bound, step); }
    void operator()(const BoundInput& w) const { StepInput(w, bound, step).check(); }
    void operator()(const BoundReport& w) const { run_report(w, bound, step, stalls); }
    void operator()(const BoundHostPass& w) const { run_pass(w); }
    void operator()(const TemplateBinding&) const { throw std::logic_error("a template op on a host lane"); }
    void operator()(const BoundWait&) const { throw std::logic_error("a wait outside the launch lane"); }
  };
  std::visit(Run{bound, step, stalls}, op.work);
}

}  // namespace penstock::exec
