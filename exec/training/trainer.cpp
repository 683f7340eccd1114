#include "exec/training/trainer.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

namespace penstock::exec {
namespace {

bool is_multiple(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

Trainer::Trainer(Training& training, TrainingOptions options, std::vector<TrainingObserver*> observers)
    : training_(training),
      options_(std::move(options)),
      steps_(options_.executor.steps),
      recorded_(options_.executor.record_steps),
      observers_(std::move(observers)) {
  options_.report = [this](const StepReport& report) {
    const double seconds = static_cast<double>(report.at_ns - last_ns_) * 1e-9;
    last_ns_ = report.at_ns;
    tell(&TrainingObserver::step_ended, report, seconds);
  };
}

void Trainer::evaluates(Evaluation& evaluation, std::int64_t every) {
  evaluation_ = &evaluation;
  evaluate_every_ = every;
}

void Trainer::saves(RunSaves& saves, const RunDescription& description) {
  saves_ = &saves;
  description_ = &description;
}

void Trainer::train(bool is_evaluated) {
  if (is_multiple(training_.steps_done(), evaluate_every_) && !is_evaluated) evaluate();
  train_part();
  while (!result_.stopped && result_.steps < steps_) {
    if (saves_ != nullptr && saves_->is_due(training_.steps_done())) save();
    if (is_multiple(training_.steps_done(), evaluate_every_)) evaluate();
    train_part();
  }
  if (!result_.stopped) evaluate();
}

/// The steps up to the next save or evaluation.
void Trainer::train_part() {
  std::int64_t left = steps_ - result_.steps;
  const std::int64_t done = training_.steps_done();
  if (saves_ != nullptr) left = saves_->steps_to_save(done, left);
  if (evaluate_every_ > 0) left = std::min(left, evaluate_every_ - done % evaluate_every_);
  options_.executor.steps = static_cast<int>(left);
  options_.executor.record_steps = std::max(0, recorded_ - result_.steps);
  tell(&TrainingObserver::training_after, done);
  last_ns_ = now_ns();
  ExecutorResult part = training_.run(options_);
  result_.steps += part.steps;
  result_.stopped = part.stopped;
  result_.recorder.append(std::move(part.recorder));
}

void Trainer::evaluate() {
  if (evaluation_ == nullptr) return;
  tell(&TrainingObserver::evaluating, training_.steps_done());
  if (const std::optional<EvaluationReport> report = evaluation_->run(options_.executor))
    tell(&TrainingObserver::evaluated, *report);
}

void Trainer::save() {
  finish_save();
  const std::int64_t step = training_.steps_done();
  tell(&TrainingObserver::saving, step);
  try {
    saves_->begin(training_, *description_);
  } catch (const std::exception& error) {
    tell_unsaved(step, error.what());
  }
}

void Trainer::finish_save() {
  const std::optional<std::int64_t> step = saves_ != nullptr ? saves_->being_written() : std::nullopt;
  if (!step) return;
  tell(&TrainingObserver::saving, *step);
  try {
    if (const std::optional<std::filesystem::path> folder = saves_->finish())
      tell(&TrainingObserver::saved, *step, *folder);
  } catch (const std::exception& error) {
    tell_unsaved(*step, error.what());
  }
}

/// What cannot be saved now may be later: no reason to end what is trained.
void Trainer::tell_unsaved(std::int64_t step, const std::string& why) {
  const std::int64_t last = training_.steps_done() + steps_ - result_.steps;
  tell(&TrainingObserver::not_saved,
       UnsavedStep{step, saves_->saved(), step + saves_->steps_to_save(step, last - step), why});
}

}  // namespace penstock::exec
