// Whoever looks at a training while it goes on: a line on the console, a file of metrics, a record, what hears signals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "exec/runtime/bound_op.h"
#include "exec/training/evaluation.h"

namespace penstock::exec {

struct UnsavedStep {
  std::int64_t step = 0;
  std::optional<std::int64_t> stands;  // the step of the checkpoint that is there
  std::int64_t next = 0;               // after which the next attempt is made
  std::string why;
};

/// Calls come one at a time, in the order of what happened.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;

  /// Steps are trained on after this one.
  virtual void training_after(std::int64_t /*step*/) {}
  /// On a host lane. `seconds`: since the step before it ended, or since training went on.
  virtual void step_ended(const StepReport& /*report*/, double /*seconds*/) {}
  /// Rows that are held out are evaluated after this step; `evaluated` follows unless a stop comes first.
  virtual void evaluating(std::int64_t /*step*/) {}
  virtual void evaluated(const EvaluationReport& /*report*/) {}
  /// Training waits for a checkpoint of this step; `saved` or `not_saved` follows, perhaps behind later steps.
  virtual void saving(std::int64_t /*step*/) {}
  virtual void saved(std::int64_t /*step*/, const std::filesystem::path& /*folder*/) {}
  virtual void not_saved(const UnsavedStep& /*unsaved*/) {}
};

}  // namespace penstock::exec
