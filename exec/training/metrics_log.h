// [log] metrics: a file with one line of JSON per step, which a run that goes on appends to.
//
//   {"step", "loss", "gradient_norm", "learning_rate", "skipped", "seconds", "tokens_per_second",
//    "trained_tokens", "stall_seconds", "stall_share"}
//   {"step", "eval_loss", "seconds"}   of an evaluation, behind the line of the step after which it was made
//
// A value that is not finite, or not known, is null. Steps ascend and none is there twice: what stands there of steps that are trained
// again, and a line that was cut off at the end, are replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "exec/training/observer.h"

namespace penstock::exec {

class MetricsLog : public TrainingObserver {
 public:
  /// `steps_before`: those behind the run's first one. Changes nothing yet. Throws InputError if something else than
  /// such lines is in the file.
  MetricsLog(const std::filesystem::path& path, std::int64_t steps_before, std::int64_t tokens_per_step);
  ~MetricsLog() override;
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Whether what is kept ends with an evaluation after the step that the run begins behind. REQUIRES: begin().
  bool has_evaluation() const { return has_evaluation_; }
  /// Takes the file, as far as it is kept. Throws InputError if another run writes to it, std::runtime_error.
  void begin();
  /// What cannot be written is said once and tried again with the next step.
  void step_ended(const StepReport& report, double seconds) override;
  void evaluated(const EvaluationReport& report) override;
  /// Throws std::runtime_error if lines are lost.
  void finish();

 private:
  void write(std::int64_t step);
  bool write_pending();

  std::filesystem::path path_;
  std::int64_t steps_before_, tokens_per_step_;
  int descriptor_ = -1;
  std::int64_t end_ = 0;  // bytes of whole lines in the file
  std::string pending_;   // lines to come
  bool told_ = false, has_evaluation_ = false;
};

/// The leading lines of steps up to `steps_before`.
struct KeptMetrics {
  std::int64_t bytes = 0;
  bool has_evaluation = false;  // of `steps_before` itself
};
/// Throws InputError as MetricsLog.
KeptMetrics kept_metrics(const std::filesystem::path& path, std::int64_t steps_before);

}  // namespace penstock::exec
