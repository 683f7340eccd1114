// Keeps what a training reported, for what is written and said at its end.
#pragma once

#include <vector>

#include "exec/training/observer.h"

namespace penstock::exec {

class StepRecord : public TrainingObserver {
 public:
  void step_ended(const StepReport& report, double /*seconds*/) override { steps_.push_back(report); }
  void evaluated(const EvaluationReport& report) override { evaluations_.push_back(report); }

  const std::vector<StepReport>& steps() const { return steps_; }
  const std::vector<EvaluationReport>& evaluations() const { return evaluations_; }

 private:
  std::vector<StepReport> steps_;
  std::vector<EvaluationReport> evaluations_;
};

}  // namespace penstock::exec
