#include "sim/planner/open_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/planner/candidate_text.h"
#include "sim/planner/step_bound.h"

namespace penstock::sim {
namespace {

constexpr std::int64_t kMostOps = 5'000'000;  // one to three seconds of a core

SearchResult quick_search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& how) {
  SearchOptions options;
  options.threads = how.threads;
  options.deadline = how.deadline;
  options.stop = how.stop;
  options.progress = how.progress;
  options.front = false;
  options.most_ops = std::min(kMostOps, how.most_ops);
  return search(scenario, space, options);
}

Decision decision_of(const SearchResult& result, const Scenario& scenario) {
  Decision decision;
  decision.given = scenario.fixed;
  decision.evaluated = result.evaluated;
  if (result.best.empty()) {
    const bool is_sound = result.shortage.arenas.hbm > 0;
    decision.outcome = is_sound ? Decision::Outcome::nothing_fits : Decision::Outcome::nothing_sound;
    decision.chosen = result.shortage.candidate;
    decision.arenas = result.shortage.arenas;
    return decision;
  }
  const Evaluated& best = result.best.front();
  decision.outcome = Decision::Outcome::planned;
  decision.chosen = best.candidate;
  decision.arenas = best.arenas;
  decision.step_seconds = best.step_seconds;
  PolicyInput input = scenario.policy_input();
  apply(best.candidate, scenario, input);
  const StepBound bound = step_bound(input, scenario.machine);
  decision.bound_seconds = bound.seconds();
  decision.binding = bound.binding();
  return decision;
}

/// Looks at long sequences cut into chunks: their plan takes the place of one that does not fit, or is slower by more
/// than what a search takes for equal.
void cut(Scenario scenario, const SearchOptions& how, SearchResult& result) {
  SearchSpace space = quick_space(scenario);
  space.chunk_tokens = chunks_to_try(scenario);
  SearchResult other = quick_search(scenario, space, how);
  if (other.best.empty()) {
    space = compact_space(scenario);
    space.chunk_tokens = chunks_to_try(scenario);
    other = quick_search(scenario, space, how);
  }
  if (other.best.empty()) return;
  const double limit = result.best.empty() ? 0 : result.best.front().step_seconds * (1 - how.tolerance);
  if (!result.best.empty() && other.best.front().step_seconds >= limit) return;
  other.evaluated += result.evaluated;
  result = std::move(other);
}

}  // namespace

SearchResult search_or_least(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options) {
  SearchResult result = search(scenario, space, options);
  if (!result.best.empty() || is_stopped(options)) return result;
  SearchResult least = search(scenario, compact_space(scenario), options);
  return least.best.empty() ? result : least;
}

Decision decide(const Scenario& scenario, const SearchOptions& how) {
  const std::set<std::string> all = choice_keys();
  Scenario same_bits = scenario;
  same_bits.fixed.merge(rounding_keys());
  if (!is_planned(scenario.policy.name) ||
      std::includes(same_bits.fixed.begin(), same_bits.fixed.end(), all.begin(), all.end())) {
    Decision decision;
    decision.given = scenario.fixed;
    return decision;
  }
  Scenario chunked = same_bits;
  if (!scenario.fixed.contains("mlp_chunk_tokens")) chunked.fixed.erase("mlp_chunk_tokens");
  const bool cuts = may_cut(scenario);
  if (cuts) chunked.fixed.erase("chunk_tokens");
  SearchResult result;
  for (const std::int64_t drive : std::set<std::int64_t>{0, scenario.machine.nvme.bytes}) {
    same_bits.machine.nvme.bytes = chunked.machine.nvme.bytes = drive;
    result = quick_search(same_bits, quick_space(same_bits), how);
    if (result.best.empty()) result = quick_search(chunked, compact_space(chunked), how);
    if (cuts) cut(chunked, how, result);
    if (!result.best.empty()) break;
  }
  return decision_of(result, scenario);
}

void apply(const Decision& decision, Scenario& scenario) {
  if (decision.outcome == Decision::Outcome::nothing_open) return;
  scenario.fixed = choice_keys();
  if (!decision.chose()) return;
  const std::string name = scenario.policy.name;
  set_plan(decision.chosen, scenario);
  scenario.policy.name = name;
}

std::string decision_text(const Decision& decision) {
  switch (decision.outcome) {
    case Decision::Outcome::nothing_open: return {};
    case Decision::Outcome::nothing_sound:
      return "nothing could be planned with what is given; the rest is the preset's start";
    case Decision::Outcome::planned:
    case Decision::Outcome::nothing_fits: break;
  }
  return fmt::format("{}: {} ({} schedules simulated)",
                     decision.outcome == Decision::Outcome::planned ? "planned" : "nothing fits; the closest",
                     candidate_text(decision.chosen), decision.evaluated);
}

}  // namespace penstock::sim
