#include "sim/evaluation_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/policy/evaluation.h"
#include "shared/units.h"
#include "sim/front_desk.h"

namespace penstock::sim {
namespace {

/// From the last backward op of a step to the end of all that the step began: the outstanding updates.
double flush_seconds(const Schedule& schedule, const Timeline& timeline) {
  const int step = timeline.first_step + timeline.steps - 1, backward = last_backward_op(schedule);
  double backward_end = 0, end = 0;
  for (const OpTime& time : timeline.ops) {
    if (time.step != step) continue;
    end = std::max(end, time.end);
    if (time.op == backward) backward_end = time.end;
  }
  return std::max(0.0, end - backward_end);
}

}  // namespace

std::optional<EvaluationCost> evaluation_cost(const Scenario& scenario, const Schedule& schedule,
                                              const Prediction& training) {
  const EvalOptions& eval = scenario.run.eval;
  if (!eval.is_asked()) return std::nullopt;
  const Schedule evaluation = make_evaluation(scenario.policy_input());
  require_same_places(schedule, evaluation, scenario.path.string());
  require_sound(evaluation, scenario.path.string() + ": [eval]");
  SimulateOptions options;
  options.record_timeline = options.count_memory = false;
  const Prediction prediction = simulate(evaluation, scenario.machine, options);
  EvaluationCost cost;
  cost.every = eval.every;
  cost.tokens = eval.steps * evaluation.tokens_per_step();
  cost.seconds = prediction.first_step_seconds + (eval.steps - 1) * prediction.step_seconds;
  cost.restart_seconds =
      std::max(0.0, flush_seconds(schedule, training.timeline) + training.first_step_seconds - training.step_seconds);
  cost.step_seconds = training.step_seconds;
  return cost;
}

std::string evaluation_text(const std::optional<EvaluationCost>& cost) {
  if (!cost) return "";
  return fmt::format(
      "evaluation          {} for {} tokens, and {} to stop and start again; every {} steps: {:.2f} % of "
      "the run\n",
      format_seconds(cost->seconds), format_count(cost->tokens), format_seconds(cost->restart_seconds), cost->every,
      100 * (1 - cost->step_seconds / cost->run_step_seconds()));
}

nlohmann::ordered_json evaluation_json(const EvaluationCost& cost) {
  return {{"every", cost.every},
          {"tokens", cost.tokens},
          {"seconds", cost.seconds},
          {"restart_seconds", cost.restart_seconds},
          {"run_step_seconds", cost.run_step_seconds()}};
}

}  // namespace penstock::sim
