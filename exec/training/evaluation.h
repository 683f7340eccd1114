// The loss on rows that are not trained on: a schedule of its own over the memories of a training.
//
// It runs between two runs of the training, each of which leaves nothing outstanding. It changes no state, so that a
// training with evaluations has the bits of one without.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/data/tokens.h"
#include "exec/runtime/executor.h"
#include "exec/training/training.h"

namespace penstock::exec {

struct EvaluationReport {
  std::int64_t step = 0;  // after which it was made
  double loss = 0;        // mean over those tokens of its rows that are trained on in such rows, natural log
  std::optional<double> balance_loss;  // as StepReport's, mean over the rows' micro-batches
  std::int64_t tokens = 0;             // how many these are
  double seconds = 0;
};

class Evaluation {
 public:
  /// `schedule`: of shared/policy/evaluation.h, for the training's input. `steps`: of rows, the first ones of `tokens`,
  /// the same each time. All must outlive this.
  Evaluation(const Schedule& schedule, const Training& training, Backend& backend, const TokenSource& tokens,
             int steps);

  /// REQUIRES: the training does not run. None if a stop came first. `executor`: its steps are not looked at.
  std::optional<EvaluationReport> run(const ExecutorOptions& executor);

 private:
  Model model_;
  const Training& training_;
  Backend& backend_;
  int steps_;
  BoundSchedule bound_;
};

}  // namespace penstock::exec
