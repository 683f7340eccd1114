// What a person sees of a training while it goes on: a line for each step, evaluation and checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "exec/training/observer.h"
#include "shared/status_line.h"

namespace penstock::exec {

std::string saved_text(std::int64_t step, const std::filesystem::path& folder);

struct ConsoleOptions {
  std::int64_t tokens_per_step = 0;
  double bound_seconds = 0;  // no schedule on this machine makes a step in less; 0: not known
  std::int64_t last_step = 0;
  bool prints = true;  // false: what goes wrong is said all the same, on standard error
};

class ConsoleLine : public TrainingObserver {
 public:
  /// `status` shows what is being done meanwhile; it must outlive this.
  ConsoleLine(StatusLine& status, const ConsoleOptions& options) : status_(status), options_(options) {}

  void training_after(std::int64_t step) override;
  void step_ended(const StepReport& report, double seconds) override;
  void evaluating(std::int64_t step) override;
  void evaluated(const EvaluationReport& report) override;
  void saving(std::int64_t step) override;
  void saved(std::int64_t step, const std::filesystem::path& folder) override;
  void not_saved(const UnsavedStep& unsaved) override;

 private:
  std::string line(const StepReport& report, double seconds) const;
  std::string time_left(std::int64_t step, double seconds) const;  // if every step takes `seconds`
  std::string bar(std::int64_t step, double seconds) const;
  void print(const std::string& text);

  StatusLine& status_;
  ConsoleOptions options_;
};

}  // namespace penstock::exec
