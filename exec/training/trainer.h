// A training from its first step to its last: trains, and between steps saves and evaluates as it was asked to. Whoever
// wants to know of it observes (observer.h).
//
//   Trainer trainer(training, options, {&console, &record});
//   trainer.evaluates(evaluation, 100);
//   trainer.saves(saves, description);
//   trainer.train(false);
//   trainer.finish_save();
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/checkpoint/run_description.h"
#include "exec/training/evaluation.h"
#include "exec/training/observer.h"
#include "exec/training/run_saves.h"
#include "exec/training/training.h"

namespace penstock::exec {

class Trainer {
 public:
  /// `options`: its executor's steps and recorded steps are of the whole training, its report is the trainer's own. All
  /// must outlive this.
  Trainer(Training& training, TrainingOptions options, std::vector<TrainingObserver*> observers);

  /// After every `every`-th step since the very first, and after the last.
  void evaluates(Evaluation& evaluation, std::int64_t every);
  /// Between steps, when it is due; what is saved at the end is not the trainer's. `description`: of the run.
  void saves(RunSaves& saves, const RunDescription& description);

  /// Until all steps are done or a stop was asked for. `is_evaluated`: an evaluation that is due before its first step
  /// was made already. A save between steps that fails ends nothing; observers are told.
  void train(bool is_evaluated);
  /// Waits for the checkpoint that is being written, if there is one.
  void finish_save();

  /// Of all its steps. REQUIRES: it has trained.
  ExecutorResult take_result() { return std::move(result_); }

 private:
  void train_part();
  void evaluate();
  void save();
  void tell_unsaved(std::int64_t step, const std::string& why);
  template <typename... Given, typename... Args>
  void tell(void (TrainingObserver::*what)(Given...), const Args&... args) {
    for (TrainingObserver* observer : observers_) (observer->*what)(args...);
  }

  Training& training_;
  TrainingOptions options_;
  const int steps_, recorded_;  // of all parts
  std::vector<TrainingObserver*> observers_;
  Evaluation* evaluation_ = nullptr;
  std::int64_t evaluate_every_ = 0;
  RunSaves* saves_ = nullptr;
  const RunDescription* description_ = nullptr;
  std::int64_t last_ns_ = 0;  // the last step ended, or training went on
  ExecutorResult result_;
};

}  // namespace penstock::exec
