// What planning costs, in simulated ops and in allocated bytes, however large the step and the model.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "shared/error.h"
#include "sim/planner/evaluator.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/search.h"
#include "sim/planner/step_bound.h"
#include "sim/simulate.h"
#include "tests/allocated_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

/// Decides what is open and puts it into the scenario.
std::string choose(Scenario& scenario, const SearchOptions& options = {}) {
  const Decision decision = decide(scenario, options);
  apply(decision, scenario);
  return decision_text(decision);
}

/// A step of so many micro-batches of one sequence, on a machine that holds them.
Scenario long_step(int micro_batches) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.sequences = micro_batches;
  scenario.micro_batch = 1;
  scenario.machine.gpu.hbm_bytes = scenario.machine.dram_bytes = std::int64_t{1} << 40;
  return scenario;
}

TEST(Search, PaysOnceForAStepThatIsLargerThanItsBudget) {
  for (const int micro_batches : {2000, 4000}) {
    const Scenario scenario = long_step(micro_batches);
    SearchOptions options;
    options.most_ops = 100'000;
    const SearchResult result = search(scenario, quick_space(scenario), options);
    ASSERT_FALSE(result.best.empty());
    EXPECT_EQ(result.evaluated, 1);
    EXPECT_EQ(result.ops, expected_ops(scenario, result.best.front().candidate));
    EXPECT_TRUE(result.presets.empty());  // the one evaluation goes to what the bounds like best
  }
}

TEST(Search, SpendsNoMoreThanItsBudgetAndOneEvaluation) {
  for (const int micro_batches : {40, 200, 1000}) {
    const Scenario scenario = long_step(micro_batches);
    SearchOptions options;
    options.most_ops = 300'000;
    const SearchResult result = search(scenario, default_space(scenario), options);
    ASSERT_FALSE(result.best.empty());
    const Candidate most{1, preset_parameters("penstock")};
    EXPECT_LE(result.ops, options.most_ops + 12 * expected_ops(scenario, most));  // each of 12 phases ends with one
  }
}

TEST(Search, HasNoTimeForAPassedDeadline) {
  const Scenario scenario = long_step(40);
  SearchOptions options;
  options.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const SearchResult result = search(scenario, default_space(scenario), options);
  EXPECT_TRUE(result.best.empty());
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.ops, 0);
}

TEST(OpenPolicy, RefusesMoreOpsThanAScheduleMayHaveWithTheCure) {
  Scenario scenario = long_step(1'000'000);
  EXPECT_EQ(error_text([&] { choose(scenario); }),
            "policy: 1000000 micro-batches of 7 layers make more than 4000000 ops per step; make micro-batches of at "
            "least 15 sequences, or steps of at most 71428");
}

Scenario with_layers(Scenario scenario, int layers) {
  ModelConfig config = scenario.model.config;
  config.decoder_layers = layers;
  scenario.model = make_model(config);
  return scenario;
}

/// Bytes that are allocated on the way to the arenas, and to the bound.
std::int64_t cost_of_arenas(const Scenario& scenario) {
  const PolicyInput input = scenario.policy_input();
  const AllocatedBytes bytes;
  EXPECT_GT(arena_bytes(input).dram, 0);
  return bytes.total();
}
std::int64_t cost_of_bound(const Scenario& scenario) {
  const PolicyInput input = scenario.policy_input();
  const AllocatedBytes bytes;
  EXPECT_GT(step_bound(input, scenario.machine).seconds(), 0);
  return bytes.total();
}

TEST(ArenaBytes, CostTheSameForAnyNumberOfMicroBatches) {
  for (const TierKind tier : {TierKind::hbm, TierKind::dram}) {
    Scenario few = long_step(10), many = long_step(10'000);
    few.policy.activations = many.policy.activations = tier;
    EXPECT_LE(cost_of_arenas(many), cost_of_arenas(few) + 1024);
    EXPECT_LE(cost_of_bound(many), cost_of_bound(few) + 1024);
    // One by one: a list of groups, 8 bytes each, which grows by doubling.
    few.policy.group = many.policy.group = 1;
    EXPECT_LE(cost_of_arenas(many), cost_of_arenas(few) + 10'000 * 8 * 4);
  }
}

TEST(ArenaBytes, CostNoMoreThanTheLayersThereAre) {
  const Scenario step = long_step(10);
  const Scenario few = with_layers(step, 500), many = with_layers(step, 4000);
  EXPECT_LE(cost_of_arenas(many), 9 * cost_of_arenas(few));
  EXPECT_LE(cost_of_bound(many), 9 * cost_of_bound(few));
  EXPECT_LE(cost_of_arenas(many), 4002 * 600);  // bytes for each layer: no names, no buffers
}

double step_seconds(const Scenario& scenario) {
  const PolicyInput input = scenario.policy_input();
  if (!penstock::fits(arena_bytes(input), input)) return std::numeric_limits<double>::infinity();
  return planned_step_seconds(make_schedule(input), scenario.machine);
}

// All layers are first ones: how they are kept is then what first_keep and first_activations say, and open.
TEST(OpenPolicy, PlansHowTheFirstLayersAreKeptWhereTheyAreAll) {
  for (const int layers : {3, 5}) {
    Scenario first = test::small_scenario(small::llama());
    first.policy.first_layers = layers;
    first.fixed = {"first_layers"};
    Scenario planned = first;
    ASSERT_TRUE(choose(planned).starts_with("planned: "));
    EXPECT_EQ(planned.policy.first_layers, layers);
    const double found = step_seconds(planned);
    for (const Keep keep : kKeeps)
      for (const TierKind tier : {TierKind::hbm, TierKind::dram}) {
        Scenario given = first;
        given.policy.first_keep = keep;
        given.policy.first_activations = tier;
        given.fixed.insert({"first_keep", "first_activations"});
        choose(given);
        EXPECT_LE(found, 1.003 * step_seconds(given)) << layers << " " << static_cast<int>(keep);
      }
  }
}

}  // namespace
}  // namespace penstock::sim
