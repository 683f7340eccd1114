#include "exec/training/console_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "shared/standard_streams.h"
#include "shared/units.h"

namespace penstock::exec {
namespace {

std::string balance_text(const std::optional<double>& loss) {
  return loss ? fmt::format("  balance {:.6f}", *loss) : std::string();
}

}  // namespace

std::string saved_text(std::int64_t step, const std::filesystem::path& folder) {
  return fmt::format("saved step {} to {}\n", step, folder.string());
}

void ConsoleLine::print(const std::string& text) {
  status_.clear();
  if (options_.prints) print_out(text);
}

void ConsoleLine::training_after(std::int64_t /*step*/) { status_.clear(); }

void ConsoleLine::step_ended(const StepReport& report, double seconds) {
  print(line(report, seconds));
  if (report.step < options_.last_step) status_.show(bar(report.step, seconds));
}

std::string ConsoleLine::line(const StepReport& report, double seconds) const {
  std::string text = fmt::format("step {:>5}  loss {:.6f}{}  norm {:<9.4g} lr {:.3e}  {:>9.1f} tokens/s", report.step,
                                 report.loss, balance_text(report.balance_loss), report.gradient_norm,
                                 report.learning_rate, static_cast<double>(options_.tokens_per_step) / seconds);
  if (report.trained_tokens < options_.tokens_per_step)
    text += fmt::format(", {:.1f} trained", static_cast<double>(report.trained_tokens) / seconds);
  if (options_.bound_seconds > 0) text += fmt::format("  {:.0f} % of bound", 100 * options_.bound_seconds / seconds);
  if (report.stalls.seconds >= 0) text += fmt::format("  stalls {:.1f} %", 100 * report.stalls.share());
  if (report.step < options_.last_step) text += fmt::format("  {} left", time_left(report.step, seconds));
  if (report.skipped)
    text += report.trained_tokens == 0 ? "  NOT UPDATED: no token is trained on"
                                       : "  NOT UPDATED: the gradient norm is not finite";
  return text + "\n";
}

std::string ConsoleLine::time_left(std::int64_t step, double seconds) const {
  return format_seconds(seconds * static_cast<double>(options_.last_step - step));
}

std::string ConsoleLine::bar(std::int64_t step, double seconds) const {
  const auto filled = static_cast<std::size_t>(30 * step / std::max<std::int64_t>(1, options_.last_step));
  return fmt::format("[{}{}] step {} of {}, about {} left", std::string(filled, '#'), std::string(30 - filled, '.'),
                     step, options_.last_step, time_left(step, seconds));
}

void ConsoleLine::evaluating(std::int64_t step) { status_.show(fmt::format("evaluating after step {}", step)); }

void ConsoleLine::evaluated(const EvaluationReport& report) {
  print(fmt::format("eval {:>5}  loss {:.6f}{}  on held-out rows, in {}\n", report.step, report.loss,
                    balance_text(report.balance_loss), format_seconds(report.seconds)));
}

void ConsoleLine::saving(std::int64_t step) { status_.show(fmt::format("saving step {}", step)); }

void ConsoleLine::saved(std::int64_t step, const std::filesystem::path& folder) { print(saved_text(step, folder)); }

void ConsoleLine::not_saved(const UnsavedStep& unsaved) {
  status_.clear();
  const std::string stands =
      unsaved.stands ? fmt::format("the checkpoint of step {} stands, ", *unsaved.stands) : std::string();
  tell(fmt::format(
      "penstock-exec: step {} is not saved, and training goes on; {}the next attempt is after step {}. {}\n",
      unsaved.step, stands, unsaved.next, unsaved.why));
}

}  // namespace penstock::exec
