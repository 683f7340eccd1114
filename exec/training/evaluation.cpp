#include "exec/training/evaluation.h"

#include "exec/runtime/bind.h"

namespace penstock::exec {

Evaluation::Evaluation(const Schedule& schedule, const Training& training, Backend& backend, const TokenSource& tokens,
                       int steps)
    : model_(make_model(schedule.model)),
      training_(training),
      backend_(backend),
      steps_(steps),
      bound_(bind_schedule(schedule, model_, training.memories())) {
  bound_.source.number = [](int step) { return step + 1; };
  bound_.source.hyper = [](int) { return AdamHyper{}; };
  bound_.source.fill_rows = [&tokens](int step, const StepRows& rows) { tokens.fill(step + 1, rows); };
}

std::optional<EvaluationReport> Evaluation::run(const ExecutorOptions& executor) {
  EvaluationReport report;
  report.step = training_.steps_done();
  bound_.source.report = [&report](const StepReport& step) {
    const auto trained = static_cast<double>(step.trained_tokens);
    if (step.trained_tokens > 0) report.loss += step.loss * trained;
    report.tokens += step.trained_tokens;
    if (step.balance_loss) report.balance_loss = report.balance_loss.value_or(0) + *step.balance_loss;
  };
  ExecutorOptions options = executor;
  options.steps = steps_;
  options.record_steps = 0;
  const std::int64_t begin = now_ns();
  const ExecutorResult result = execute(bound_, backend_, options);
  if (result.steps < steps_) return std::nullopt;
  report.loss /= static_cast<double>(report.tokens);
  if (report.balance_loss) *report.balance_loss /= steps_;
  report.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  return report;
}

}  // namespace penstock::exec
