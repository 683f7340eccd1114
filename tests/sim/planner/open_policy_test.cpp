// What `policy.name = "penstock"` means: the planner fills in what is open, for this machine, and nothing else changes.
#include "sim/planner/open_policy.h"

#include <gtest/gtest.h>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/scenario/policy_toml.h"
#include "sim/planner/step_bound.h"
#include "sim/simulate.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

/// Decides what is open and puts it into the scenario.
std::string choose(Scenario& scenario, const SearchOptions& options = {}) {
  const Decision decision = decide(scenario, options);
  apply(decision, scenario);
  return decision_text(decision);
}

double step_seconds(const Scenario& scenario) {
  return simulate(make_schedule(scenario.policy_input()), scenario.machine, {64, false, false}).step_seconds;
}

bool fits(const Scenario& scenario) {
  const PolicyInput input = scenario.policy_input();
  return penstock::fits(arena_bytes(input), input);
}

class OpenPolicyTest : public testing::TestWithParam<int> {
 protected:
  Scenario scenario() const { return test::tight_scenario(GetParam()); }
};

TEST_P(OpenPolicyTest, FitsIsProvedNoSlowerThanTheStartAndOfTheSameBits) {
  const Scenario before = scenario();
  Scenario planned = before;
  const Decision decision = decide(before);
  apply(decision, planned);
  const std::string line = decision_text(decision);
  EXPECT_TRUE(line.starts_with("planned: micro-batch 2, ")) << line;
  ASSERT_TRUE(fits(planned));
  // What it says in figures is so.
  EXPECT_EQ(decision.outcome, Decision::Outcome::planned);
  EXPECT_EQ(decision.step_seconds, step_seconds(planned));
  EXPECT_EQ(decision.arenas.hbm, arena_bytes(planned.policy_input()).hbm);
  EXPECT_EQ(decision.arenas.dram, arena_bytes(planned.policy_input()).dram);
  const StepBound bound = step_bound(planned.policy_input(), planned.machine);
  EXPECT_EQ(decision.bound_seconds, bound.seconds());
  EXPECT_EQ(decision.binding, bound.binding());
  EXPECT_LE(decision.bound_seconds, decision.step_seconds);
  EXPECT_GT(decision.evaluated, 0);
  EXPECT_EQ(decision.given, before.fixed);
  EXPECT_TRUE(check_schedule(make_schedule(planned.policy_input())).empty());
  const double slowest = GetParam() == 0 ? 0.8 : 1.0;  // of the start; machine 0 has room to keep more
  if (fits(before)) {
    EXPECT_LE(step_seconds(planned), slowest * step_seconds(before));
  }
  EXPECT_EQ(planned.policy.name, "penstock");
  EXPECT_EQ(planned.micro_batch, 2);
  const Numerics &now = planned.policy.numerics, &then = before.policy.numerics;
  EXPECT_EQ(now.chunking.mlp_tokens, then.chunking.mlp_tokens);
  EXPECT_EQ(now.chunking.loss_tokens, then.chunking.loss_tokens);
  EXPECT_EQ(now.states, StateFormat::planes);
  EXPECT_TRUE(now.clip);
}

TEST_P(OpenPolicyTest, TheSameForAnyNumberOfThreads) {
  std::vector<std::string> policies;
  for (const int threads : {1, 3}) {
    Scenario planned = scenario();
    SearchOptions options;
    options.threads = threads;
    choose(planned, options);
    policies.push_back(policy_text(planned.policy));
  }
  EXPECT_EQ(policies[1], policies[0]);
}

INSTANTIATE_TEST_SUITE_P(Machines, OpenPolicyTest, testing::Values(0, 1, 2, 3, 6));

TEST(OpenPolicy, WhatTheScenarioGivesStays) {
  Scenario planned = test::small_scenario(small::llama());
  planned.policy.keep = Keep::input_attention;
  planned.policy.group = 2;
  planned.policy.resident_states = 1;
  planned.policy.burst = BurstKind::tensor;
  planned.fixed = {"keep", "group", "resident_states", "burst"};
  EXPECT_EQ(decide(planned).given, planned.fixed);
  EXPECT_NE(choose(planned), "");
  EXPECT_EQ(planned.policy.keep, Keep::input_attention);
  EXPECT_EQ(planned.policy.group, 2);
  EXPECT_EQ(planned.policy.resident_states, 1);
  EXPECT_EQ(planned.policy.burst, BurstKind::tensor);
  EXPECT_TRUE(fits(planned));
}

TEST(OpenPolicy, AWrittenPlanIsNotPlannedAgain) {
  Scenario planned = test::small_scenario(small::llama());
  choose(planned);
  const std::string policy = policy_text(planned.policy);
  EXPECT_EQ(choose(planned), "");
  // As a scenario file or a recording has it.
  Scenario read = planned;
  read.fixed = given_parameters(parse_toml(policy, "plan.toml"));
  read.machine.gpu.hbm_bytes = 1;  // a plan for this machine would differ
  EXPECT_EQ(choose(read), "");
  EXPECT_EQ(policy_text(read.policy), policy);
}

TEST(OpenPolicy, OtherPresetsAreWhatTheyAre) {
  for (const PresetInfo& preset : presets()) {
    if (preset.planned) continue;
    Scenario scenario = test::small_scenario(small::llama());
    scenario.policy = preset_parameters(preset.name);
    const std::string policy = policy_text(scenario.policy);
    EXPECT_EQ(choose(scenario), "") << preset.name;
    EXPECT_EQ(policy_text(scenario.policy), policy);
  }
  EXPECT_TRUE(is_planned("penstock"));
}

TEST(OpenPolicy, SmallChunksOnlyWhereNothingElseFits) {
  // One sequence of 4096 tokens: gate and up of the MLP alone are 4096 x 2 x 128 x 2 B = 2 MiB.
  Scenario roomy = test::small_scenario(small::llama());
  roomy.sequence_length = 4096;
  roomy.sequences = roomy.micro_batch = 1;
  roomy.machine.gpu.hbm_bytes = std::int64_t{1} << 30;
  roomy.machine.dram_bytes = std::int64_t{1} << 30;
  Scenario planned = roomy;
  choose(planned);
  EXPECT_EQ(planned.policy.numerics.chunking.mlp_tokens, 0);
  EXPECT_TRUE(fits(planned));

  // The least that whole rows need, less one byte.
  Scenario least = roomy;
  least.policy.weight_buffers = least.policy.activation_slots = least.policy.gradient_slots = 1;
  least.policy.activations = TierKind::dram;
  const std::int64_t whole = arena_bytes(least.policy_input()).hbm;
  least.policy.numerics.chunking.mlp_tokens = 1024;
  const std::int64_t chunked = arena_bytes(least.policy_input()).hbm;
  ASSERT_LT(chunked, whole);
  Scenario tight = roomy;
  tight.machine.gpu.hbm_bytes = chunked;
  Scenario planned_tight = tight;
  EXPECT_TRUE(choose(planned_tight).starts_with("planned: "));
  EXPECT_GT(planned_tight.policy.numerics.chunking.mlp_tokens, 0);
  EXPECT_TRUE(fits(planned_tight));
  // A longer search, of other choices, does not say that nothing fits.
  EXPECT_TRUE(search(tight, quick_space(tight), {}).best.empty());
  EXPECT_FALSE(search_or_least(tight, quick_space(tight), {}).best.empty());
  tight.fixed = {"mlp_chunk_tokens"};
  EXPECT_TRUE(choose(tight).starts_with("nothing fits; the closest: "));
}

TEST(OpenPolicy, WhereNothingFitsTheClosestIsTaken) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = 1 << 20;
  scenario.machine.gpu.hbm_bytes = (64 << 20) + (1 << 18);
  const Decision decision = decide(scenario);
  EXPECT_EQ(decision.outcome, Decision::Outcome::nothing_fits);
  EXPECT_TRUE(decision_text(decision).starts_with("nothing fits; the closest: ")) << decision_text(decision);
  EXPECT_EQ(decision.step_seconds, 0);
  apply(decision, scenario);
  EXPECT_EQ(decision.arenas.hbm, arena_bytes(scenario.policy_input()).hbm);
  EXPECT_FALSE(fits(scenario));  // make_schedule and the checker say by how much
}

TEST(OpenPolicy, ContradictionsAreNamed) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.policy.group = 3;
  scenario.fixed = {"group"};
  try {
    choose(scenario);
    FAIL() << "expected an InputError";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("groups of 3 micro-batches do not add up to the 4"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace penstock::sim
