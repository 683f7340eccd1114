// What evaluations beside a training take ([eval] of a scenario): their own time, and what a pause costs the training.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "shared/scenario/scenario.h"
#include "sim/simulate.h"

namespace penstock::sim {

struct EvaluationCost {
  std::int64_t every = 0;      // steps
  std::int64_t tokens = 0;     // of one evaluation
  double seconds = 0;          // one evaluation
  double restart_seconds = 0;  // flush before it, and the first step behind it beyond a steady one
  double step_seconds = 0;     // of the training

  /// Of a step of the run, with its part of the evaluations.
  double run_step_seconds() const { return step_seconds + (seconds + restart_seconds) / static_cast<double>(every); }
};

/// None without [eval]. The evaluation's schedule is proved and simulated. `training`: predicted with its timeline.
/// Throws InputError as require_same_places of shared/policy/evaluation.h does.
std::optional<EvaluationCost> evaluation_cost(const Scenario& scenario, const Schedule& schedule,
                                              const Prediction& training);

/// A line for people; empty without.
std::string evaluation_text(const std::optional<EvaluationCost>& cost);
nlohmann::ordered_json evaluation_json(const EvaluationCost& cost);

}  // namespace penstock::sim
