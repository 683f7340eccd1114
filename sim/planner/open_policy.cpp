#include "sim/planner/open_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/planner/candidate_text.h"

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

}  // namespace

std::string choose_open_policy(Scenario& scenario, const SearchOptions& how) {
  if (!is_planned(scenario.policy.name)) return {};
  const std::set<std::string> all = choice_keys();
  Scenario same_bits = scenario;
  same_bits.fixed.insert({"micro_batch", "mlp_chunk_tokens", "loss_chunk_tokens"});
  if (std::includes(same_bits.fixed.begin(), same_bits.fixed.end(), all.begin(), all.end())) return {};
  Scenario chunked = same_bits;
  if (!scenario.fixed.contains("mlp_chunk_tokens")) chunked.fixed.erase("mlp_chunk_tokens");
  SearchResult result;
  for (const std::int64_t drive : std::set<std::int64_t>{0, scenario.machine.nvme.bytes}) {
    same_bits.machine.nvme.bytes = chunked.machine.nvme.bytes = drive;
    result = quick_search(same_bits, quick_space(same_bits), how);
    if (result.best.empty()) result = quick_search(chunked, compact_space(chunked), how);
    if (!result.best.empty()) break;
  }
  scenario.fixed = all;
  const bool fits = !result.best.empty();
  if (!fits && result.shortage.arenas.hbm == 0)
    return "nothing could be planned with what is given; the rest is the preset's start";
  const Candidate& plan = fits ? result.best.front().candidate : result.shortage.candidate;
  const std::string name = scenario.policy.name;
  scenario.policy = plan.parameters;
  scenario.policy.name = name;
  return fmt::format("{}: {} ({} schedules simulated)", fits ? "planned" : "nothing fits; the closest",
                     candidate_text(plan), result.evaluated);
}

}  // namespace penstock::sim
