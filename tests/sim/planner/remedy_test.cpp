#include "sim/planner/remedy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shared/policy/parameters.h"
#include "sim/planner/open_policy.h"
#include "sim/simulate.h"
#include "tests/sim/planner/small_scenario.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

/// Decides what is open and puts it into the scenario.
std::string choose(Scenario& scenario, const SearchOptions& options = {}) {
  const Decision decision = decide(scenario, options);
  apply(decision, scenario);
  return decision_text(decision);
}

using Overrides = std::vector<std::string>;

Scenario read(const std::string& file, const Overrides& overrides) {
  return read_scenario(source_folder() / "scenarios" / file, overrides);
}

bool fits_as_it_is(Scenario scenario) {
  choose(scenario);
  const PolicyInput input = scenario.policy_input();
  return penstock::fits(arena_bytes(input), input);
}

/// Each of them, given as the text says, makes it fit, alone.
void expect_that_each_is_enough(const std::string& file, const Overrides& overrides,
                                const std::vector<Remedy>& remedies) {
  ASSERT_FALSE(fits_as_it_is(read(file, overrides))) << file;
  ASSERT_FALSE(remedies.empty()) << file;
  EXPECT_LE(remedies.size(), static_cast<std::size_t>(kMostRemedies));
  for (const Remedy& remedy : remedies) {
    Overrides with = overrides;
    with.push_back(remedy.key + "=" + remedy.value);
    EXPECT_TRUE(fits_as_it_is(read(file, with))) << file << ": " << with.back();
    EXPECT_FALSE(remedy.cost.empty()) << remedy.key;
    EXPECT_GT(remedy.step_seconds, 0) << remedy.key;
  }
}

TEST(Remedy, ALongSequenceThatIsNotToBeCutFitsWithUnorderedAttention) {
  const std::string file = "qwen2.5-7b-h200-128gb.toml";
  const Overrides overrides{"workload.sequence_length=131072", "workload.sequences=1", "workload.micro_batch=1",
                            "workload.chunk_tokens=0"};
  const std::vector<Remedy> found = remedies(read(file, overrides));
  expect_that_each_is_enough(file, overrides, found);
  EXPECT_NE(remedies_text(found).find("run.deterministic = false (the last bits vary from run to run"),
            std::string::npos)
      << remedies_text(found);
  EXPECT_NE(remedies_text(found).find("workload.chunk_tokens = 16384 (sums in another order"), std::string::npos)
      << remedies_text(found);
}

/// Where nobody says whether to cut, the plan does.
TEST(Remedy, ALongSequenceOnAnH200NeedsNone) {
  Scenario scenario = read("qwen2.5-7b-h200-128gb.toml",
                           {"workload.sequence_length=131072", "workload.sequences=1", "workload.micro_batch=1"});
  choose(scenario);
  EXPECT_GT(scenario.chunk_tokens, 0);
  const PolicyInput input = scenario.policy_input();
  EXPECT_TRUE(penstock::fits(arena_bytes(input), input));
}

TEST(Remedy, AFixedKeepLevelIsNamedWithTheValueThatFits) {
  const std::string file = "qwen2.5-7b-h200-128gb.toml";
  const Overrides overrides{"policy.keep=everything", "policy.activations=hbm", "policy.group=all"};
  const std::vector<Remedy> found = remedies(read(file, overrides));
  expect_that_each_is_enough(file, overrides, found);
  const auto keep =
      std::find_if(found.begin(), found.end(), [](const Remedy& remedy) { return remedy.key == "policy.keep"; });
  ASSERT_NE(keep, found.end());
  EXPECT_EQ(keep->value, "\"input\"");
}

TEST(Remedy, OfAPresetItNamesTheKeysOfThePreset) {
  const std::string file = "qwen2.5-3b-h200.toml";
  const Overrides overrides{"policy.name=resident", "policy.keep=everything", "workload.micro_batch=80",
                            "machine.nvme=0 B"};
  const std::vector<Remedy> found = remedies(read(file, overrides));
  expect_that_each_is_enough(file, overrides, found);
  ASSERT_EQ(found.size(), 3u) << remedies_text(found);
  EXPECT_EQ(found[0].key + found[0].value, "workload.micro_batch32");  // the largest divisor that fits
  EXPECT_EQ(found[1].key + found[1].value, "policy.keep\"input_attention\"");
  EXPECT_GT(found[0].tokens_per_second, found[1].tokens_per_second);
  EXPECT_EQ(found[2].key, "machine.hbm");  // another class: as fast, but to be bought
}

TEST(Remedy, WhereThePlannerHasTriedEverythingItIsTheMachineOrTheTask) {
  const std::string file = "llama-3.1-8b-rtx4090.toml";
  const Overrides overrides{"machine.dram=32 GiB", "machine.nvme=0 B"};
  const std::vector<Remedy> found = remedies(read(file, overrides));
  expect_that_each_is_enough(file, overrides, found);
  for (const Remedy& remedy : found) EXPECT_TRUE(remedy.key.starts_with("machine.")) << remedy.key;
  for (const Remedy& remedy : remedies(read(file, overrides), 0, true))  // this machine and no other
    EXPECT_TRUE(remedy.key == "machine.nvme_path" || !remedy.key.starts_with("machine.")) << remedy.key;
}

/// What people have: with planes and fp32 moments 12 bytes a parameter lie somewhere, here 91, 37 and 19 GB, more than
/// these hosts have beside what a step needs. The drive that such a desktop usually has comes first: it changes no
/// mathematics, and need not be bought.
TEST(Remedy, DesktopsAreToldOfTheDriveThatDoes) {
  const std::string file = "llama-3.1-8b-rtx4090.toml";
  const struct {
    const char *model, *hbm, *dram;
  } desktops[] = {
      {"qwen2.5-7b", "24 GiB", "64 GB"}, {"qwen2.5-3b", "16 GB", "32 GB"}, {"qwen2.5-1.5b", "8 GB", "16 GB"}};
  for (const auto& [model, hbm, dram] : desktops) {
    SCOPED_TRACE(model);
    const Overrides overrides{std::string("model.config=models/") + model + ".json", std::string("machine.hbm=") + hbm,
                              std::string("machine.dram=") + dram, "machine.nvme=0 B"};
    const std::vector<Remedy> found = remedies(read(file, overrides));
    expect_that_each_is_enough(file, overrides, found);
    ASSERT_FALSE(found.empty());
    const auto drive =
        std::find_if(found.begin(), found.end(), [](const Remedy& remedy) { return remedy.key == "machine.nvme"; });
    ASSERT_NE(drive, found.end()) << remedies_text(found);
    EXPECT_EQ(drive->cost, "states on a drive, which is written in every step");
    // With the drive that it usually has, the card computes most of the time.
    Overrides with = overrides;
    with.back() = "machine.nvme=2 TB";
    Scenario scenario = read(file, with);
    choose(scenario);
    const Prediction prediction =
        simulate(make_schedule(scenario.policy_input()), scenario.machine, {64, false, false});
    EXPECT_LT(prediction.step_seconds, 1.2 * prediction.bounds.same_traffic_seconds);
  }
}

TEST(Remedy, ADesktopThatLacksAFewGibIsToldHowMany) {
  const std::string file = "qwen2.5-14b-rtx4090-256gb.toml";
  const Overrides overrides{"machine.nvme=0 B", "machine.dram=160 GiB"};
  expect_that_each_is_enough(file, overrides, remedies(read(file, overrides)));
}

TEST(Remedy, ThereMayBeNone) {
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.dram_bytes = scenario.machine.gpu.hbm_bytes = 64;
  const std::vector<Remedy> found = remedies(scenario, 1);
  EXPECT_TRUE(found.empty()) << remedies_text(found);
  EXPECT_EQ(remedies_text(found), "No single key makes it fit.");
}

TEST(Remedy, IsTheSameForAnyNumberOfThreads) {
  const Scenario scenario = read("qwen2.5-7b-h200-128gb.toml", {"policy.keep=everything", "policy.activations=hbm"});
  EXPECT_EQ(remedies_text(remedies(scenario, 1)), remedies_text(remedies(scenario, 2)));
}

}  // namespace
}  // namespace penstock::sim
