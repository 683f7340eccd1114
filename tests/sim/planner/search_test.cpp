// Pruning loses nothing: over a space that nested loops can exhaust, the search finds what they find.
#include "sim/planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "sim/planner/drive_use.h"
#include "sim/simulate.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

SearchSpace small_space() {
  SearchSpace space;
  space.micro_batches = {1, 2, 4};
  space.chunkings = {{0, 0}};
  space.keeps = {{Keep::everything, 1}, {Keep::input, 1}, {Keep::input, 2}};
  space.firsts = {{}, {0.4, Keep::everything, TierKind::hbm}, {0.4, Keep::everything, TierKind::dram}};
  space.most_groups = 4;
  space.activations = {TierKind::hbm, TierKind::dram};
  space.gradients = {TierKind::dram, TierKind::hbm};
  space.gradient_sums = {TierKind::hbm};
  space.optimizers = {{OptimizerPlace::host, OptimizerTime::next_forward},
                      {OptimizerPlace::gpu, OptimizerTime::next_forward}};
  space.weight_buffers = {2};
  space.activation_slots = {2};
  space.gradient_slots = {2};
  space.residency_points = 8;  // every count of five layers
  return space;
}

SearchOptions exact() {
  SearchOptions options;
  options.threads = 2;
  options.tolerance = 0;
  options.refine = false;
  options.presets = false;
  options.front = false;
  options.most_ops = std::int64_t{1} << 40;
  return options;
}

/// What the machine holds of one candidate; nothing if that is not all of it.
double step_of(const Scenario& scenario, const Candidate& candidate) {
  PolicyInput input = scenario.policy_input();
  apply(candidate, scenario, input);
  if (!fits(arena_bytes(input), input)) return std::numeric_limits<double>::infinity();
  return simulate(make_schedule(input), scenario.machine, {64, false, false}).step_seconds;
}

/// Every shape with every number of states in HBM and, where there is a drive, on NVMe; nothing pruned, nothing shared
/// with the search but the shapes.
double brute_force(const Scenario& scenario, const SearchSpace& space) {
  double best = std::numeric_limits<double>::infinity();
  for (const Candidate& shape : shapes(space, scenario))
    for (int states = -1; states <= 5; ++states) {
      const bool may_spill =
          scenario.machine.nvme.bytes > 0 && states >= 0 && shape.parameters.optimizer_place == OptimizerPlace::host;
      for (int on_nvme = 0; on_nvme <= (may_spill ? 5 - states : 0); ++on_nvme) {
        Candidate candidate = shape;
        candidate.parameters.resident_states = states;
        candidate.parameters.resident_weights = states < 0 ? -1 : 0;
        candidate.parameters.nvme_states = on_nvme;
        best = std::min(best, step_of(scenario, candidate));
        if (on_nvme == 0 || shape.parameters.gradients != TierKind::dram) continue;
        candidate.parameters.gradients = TierKind::nvme;
        best = std::min(best, step_of(scenario, candidate));
      }
    }
  return best;
}

class SearchTest : public testing::TestWithParam<int> {
 protected:
  Scenario scenario() const { return test::tight_scenario(GetParam()); }
};

TEST_P(SearchTest, PruningLosesNothing) {
  const Scenario scenario = this->scenario();
  const SearchSpace space = small_space();
  const double best = brute_force(scenario, space);
  const SearchResult result = search(scenario, space, exact());
  ASSERT_LT(best, std::numeric_limits<double>::infinity());
  ASSERT_FALSE(result.best.empty());
  // The search also fills HBM with weights, which the loops do not try: it may only be faster.
  EXPECT_LE(result.best.front().step_seconds, best);
  EXPECT_TRUE(result.complete);

  SearchOptions everything = exact();
  everything.prune = false;
  const SearchResult full = search(scenario, space, everything);
  EXPECT_EQ(full.best.front().step_seconds, result.best.front().step_seconds);
  EXPECT_LE(result.evaluated, full.evaluated);
}

TEST_P(SearchTest, TheSamePlanForAnyNumberOfThreads) {
  const Scenario scenario = this->scenario();
  SearchOptions options;
  options.front = false;
  options.most_ops = 200'000;  // not enough for all: the budget too must not depend on the threads
  std::vector<SearchResult> results;
  for (const int threads : {1, 2, 5}) {
    options.threads = threads;
    results.push_back(search(scenario, default_space(scenario), options));
  }
  for (const SearchResult& result : results) {
    ASSERT_EQ(result.best.size(), 1u);
    EXPECT_EQ(result.evaluated, results.front().evaluated);
    const Candidate &a = result.best.front().candidate, &b = results.front().best.front().candidate;
    EXPECT_FALSE(a < b || b < a);
  }
}

TEST_P(SearchTest, ThePlanIsProvedAndNoPresetIsFaster) {
  const Scenario scenario = this->scenario();
  SearchOptions options;
  options.front = false;
  const SearchResult result = search(scenario, default_space(scenario), options);
  ASSERT_FALSE(result.best.empty());
  PolicyInput input = scenario.policy_input();
  apply(result.best.front().candidate, scenario, input);
  EXPECT_TRUE(check_schedule(make_schedule(input)).empty());
  EXPECT_EQ(step_of(scenario, result.best.front().candidate), result.best.front().step_seconds);
  for (const Evaluated& preset : result.presets)
    EXPECT_LE(result.best.front().step_seconds, preset.step_seconds) << preset.origin;
}

INSTANTIATE_TEST_SUITE_P(Machines, SearchTest, testing::Range(0, 8));

TEST(Search, GoesToNvmeWhereTheOtherTiersAreTooSmall) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = 2'200'000;
  scenario.machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
  SearchOptions options;
  options.front = false;
  EXPECT_TRUE(search(scenario, default_space(scenario), options).best.empty());
  scenario.machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
  const SearchResult result = search(scenario, default_space(scenario), options);
  ASSERT_FALSE(result.best.empty());
  EXPECT_GT(result.best.front().candidate.parameters.nvme_states, 0);
  EXPECT_GT(result.best.front().arenas.nvme, 0);
  scenario.machine.nvme.bytes = 1 << 10;
  EXPECT_TRUE(search(scenario, default_space(scenario), options).best.empty());
}

TEST(Search, SparesTheDriveWhereItIsNotNeeded) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = 2'500'000;
  SearchOptions options;
  options.front = false;
  const SearchResult without = search(scenario, default_space(scenario), options);
  ASSERT_FALSE(without.best.empty());
  scenario.machine.nvme = {1 << 24, 1e12, 1e12, 0};  // however fast it is
  const SearchResult with = search(scenario, default_space(scenario), options);
  EXPECT_EQ(with.best.front().step_seconds, without.best.front().step_seconds);
  EXPECT_EQ(with.best.front().arenas.nvme, 0);
}

TEST(Search, WritesLessToADriveThatWouldSoonBeWornOut) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = 2'200'000;
  scenario.machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
  scenario.machine.nvme = {1 << 24, 1e9, 1e9, 1e-6};
  const auto planned = [&](double endurance_bytes, double sparing) {
    scenario.machine.nvme.endurance_bytes = endurance_bytes;
    SearchOptions options;
    options.front = false;
    options.drive_sparing = sparing;
    return search(scenario, default_space(scenario), options).best.front();
  };
  const auto writes = [&](const Evaluated& plan) {
    PolicyInput input = scenario.policy_input();
    apply(plan.candidate, scenario, input);
    return drive_use(make_schedule(input)).written_bytes;
  };
  const Evaluated fastest = planned(1e9, 0), spared = planned(1e9, 0.5);
  EXPECT_LT(writes(spared), writes(fastest));
  EXPECT_GT(writes(spared), 0);
  EXPECT_LE(spared.step_seconds, fastest.step_seconds * 1.5);
  for (const double lasting : {0.0, 1e20})  // not known, or years
    EXPECT_EQ(planned(lasting, 0.5).step_seconds, fastest.step_seconds);
}

/// Ascending memory of one tier, descending time, the plan at its end, and each entry what the simulator says of it.
void expect_front(const Scenario& scenario, const SearchResult& result, const std::vector<Evaluated>& front,
                  std::int64_t ArenaBytes::*tier) {
  ASSERT_GE(front.size(), 2u);
  for (std::size_t i = 0; i < front.size(); ++i) {
    EXPECT_EQ(front[i].step_seconds, step_of(scenario, front[i].candidate));
    if (i == 0) continue;
    EXPECT_GT(front[i].arenas.*tier, front[i - 1].arenas.*tier);
    EXPECT_LT(front[i].step_seconds, front[i - 1].step_seconds);
  }
  EXPECT_LE(front.back().arenas.*tier, result.best.front().arenas.*tier);
  EXPECT_LE(result.best.front().step_seconds, front.back().step_seconds * 1.003);
}

TEST(Search, FrontsTradeMemoryForTime) {
  for (const int variant : {0, 6}) {
    const Scenario scenario = test::tight_scenario(variant);
    const SearchResult result = search(scenario, default_space(scenario), {});
    ASSERT_FALSE(result.best.empty());
    expect_front(scenario, result, result.by_dram, &ArenaBytes::dram);
    expect_front(scenario, result, result.by_hbm, &ArenaBytes::hbm);
  }
}

TEST(Search, SaysWhatComesClosestIfNothingFits) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = 1 << 20;
  scenario.machine.gpu.hbm_bytes = (64 << 20) + (1 << 18);
  const SearchResult result = search(scenario, default_space(scenario), {});
  EXPECT_TRUE(result.best.empty());
  const ArenaBytes& need = result.shortage.arenas;
  EXPECT_TRUE(need.hbm > scenario.machine.gpu.hbm_bytes || need.dram > scenario.machine.dram_bytes);
  // No schedule of exact AdamW has less than 14 B/param in both tiers together.
  EXPECT_GE(need.hbm + need.dram, 14 * scenario.model.parameters);
}

TEST(Search, StopsAtOnceWhenAsked) {
  const Scenario scenario = test::small_scenario(small::llama());
  const std::atomic<bool> stop = true;
  SearchOptions options;
  options.stop = &stop;
  const SearchResult result = search(scenario, default_space(scenario), options);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.evaluated, 0);
}

TEST(SearchSpace, GroupingsAddUp) {
  for (const int micro_batches : {1, 2, 7, 10, 160})
    for (const Grouping& grouping : groupings(micro_batches, 16)) {
      const int group = grouping.group > 0 ? grouping.group : micro_batches;
      const int first = grouping.first_group > 0 ? grouping.first_group : group;
      EXPECT_EQ((micro_batches - first) % group, 0);
      EXPECT_LE(first, micro_batches);
    }
}

}  // namespace
}  // namespace penstock::sim
