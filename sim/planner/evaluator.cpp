#include "sim/planner/evaluator.h"

#include <algorithm>
#include <utility>

#include "shared/error.h"
#include "sim/planner/parallel.h"
#include "sim/planner/step_bound.h"
#include "sim/planner/step_traffic.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

/// Simulated steps until a schedule repeats, roughly.
constexpr std::int64_t kSteps = 3;
/// A huge schedule may look no longer than this for steps that repeat: they do within ten.
constexpr std::size_t kMostSimulatedOps = 40'000'000;
constexpr std::size_t kFewestSteps = 8, kMostSteps = 64;

}  // namespace

std::int64_t expected_ops(const Scenario& scenario, const Candidate& candidate) {
  const bool travels = activations_travel(candidate.parameters);
  BatchShape sequence{1, scenario.sequence_length};
  if (candidate.chunk_tokens < scenario.sequence_length) sequence.chunk_tokens = candidate.chunk_tokens;
  return kSteps * (travels ? 6 : 4) * scenario.model.layer_count() * (scenario.sequences / candidate.micro_batch) *
         chunk_count(sequence);
}

double planned_step_seconds(const Schedule& schedule, const Machine& machine) {
  const std::size_t steps = std::clamp(kMostSimulatedOps / schedule.ops.size(), kFewestSteps, kMostSteps);
  return simulate(schedule, machine, {static_cast<int>(steps), false, false}).step_seconds;
}

Evaluator::Evaluator(const Scenario& scenario, const SearchOptions& options)
    : scenario_(scenario), options_(options), most_ops_(options.most_ops) {
  inputs_.assign(thread_count(options.threads), scenario.policy_input());
}

void Evaluator::parallel(std::size_t count, const std::function<void(std::size_t, PolicyInput&)>& work) {
  parallel_for(count, inputs_.size(), [&](std::size_t i, std::size_t thread) { work(i, inputs_[thread]); });
}

std::optional<ArenaBytes> Evaluator::arenas(const Candidate& candidate, PolicyInput& input) const {
  apply(candidate, scenario_, input);
  try {
    return arena_bytes(input);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

double Evaluator::bound(const Candidate& candidate, PolicyInput& input) const {
  apply(candidate, scenario_, input);
  return step_bound(input, scenario_.machine).seconds();
}

std::int64_t Evaluator::drive_writes(const Candidate& candidate, PolicyInput& input) const {
  apply(candidate, scenario_, input);
  return step_traffic(Plan(input)).nvme_write;
}

double Evaluator::shape_bound(const Candidate& shape, PolicyInput& input) const {
  apply(shape, scenario_, input);
  // Residency only adds to compute (updates on its lane), and only takes from everything else.
  const double compute = step_bound(input, scenario_.machine).compute;
  const Layer& layer = scenario_.model.smallest_decoder();
  const int decoders = scenario_.model.layer_count() - 2;
  const auto held = [&](std::int64_t bytes_per_element) {
    return static_cast<int>(
        std::min<std::int64_t>(decoders, input.hbm_bytes / (layer.state_elements * bytes_per_element)));
  };
  input.parameters.resident_weights = held(2);
  input.parameters.resident_states = held(8);  // weights, low bits and bf16 moments: the least of any format
  if (input.parameters.resident_states == decoders) input.parameters.resident_states = -1;
  if (input.parameters.resident_weights == decoders) input.parameters.resident_weights = -1;
  StepBound rest = step_bound(input, scenario_.machine);
  rest.compute = compute;
  return rest.seconds();
}

std::vector<Evaluated> Evaluator::evaluate(const std::vector<Evaluated>& candidates) {
  std::vector<Evaluated> result = candidates;
  std::vector<std::size_t> to_do;
  std::size_t taken = 0;
  for (; taken < candidates.size() && !exhausted(); ++taken) {
    if (known_.contains(candidates[taken].candidate)) continue;
    const std::int64_t cost = expected_ops(scenario_, candidates[taken].candidate);
    if (!affordable(cost)) break;
    to_do.push_back(taken);
    ops_ += cost;
  }
  result.resize(taken);
  parallel(to_do.size(), [&](std::size_t i, PolicyInput& input) {
    if (stopped()) return;
    Evaluated& entry = result[to_do[i]];
    apply(entry.candidate, scenario_, input);
    entry.step_seconds = planned_step_seconds(make_schedule(input), scenario_.machine);
  });
  for (const std::size_t i : to_do)
    if (result[i].step_seconds > 0) known_.emplace(result[i].candidate, result[i]);
  for (Evaluated& entry : result)
    if (const auto found = known_.find(entry.candidate); found != known_.end()) entry = found->second;
  std::erase_if(result, [](const Evaluated& entry) { return entry.step_seconds <= 0; });
  return result;
}

bool Evaluator::affordable(std::int64_t cost) const {
  return !is_huge(cost, options_.most_ops) || cost <= most_ops_ - ops_ || ops_ == 0;
}

bool Evaluator::exhausted() const { return ops_ >= most_ops_ || stopped(); }

bool is_stopped(const SearchOptions& options) {
  if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) return true;
  return options.deadline < std::chrono::steady_clock::time_point::max() &&
         std::chrono::steady_clock::now() >= options.deadline;
}

std::vector<Evaluated> Evaluator::all() const {
  std::vector<Evaluated> result;
  for (const auto& [candidate, entry] : known_) result.push_back(entry);
  return result;
}

}  // namespace penstock::sim
