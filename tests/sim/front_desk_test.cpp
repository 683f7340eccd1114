#include "sim/front_desk.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "shared/machine/machine.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

/// Of a machine that keeps something for itself in every tier where one can.
Scenario scenario_with_reserves() {
  Scenario scenario = test::small_scenario(small::llama());
  Machine& machine = scenario.machine;
  machine.gpu.context_bytes = 1'000'000;
  machine.reserve_bytes = 2'000'000;
  machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
  return scenario;
}

TEST(WithinRoom, ArenasMayTakeTheRoomAndNothingElseIsTakenOfIt) {
  const TierCapacities room{30 << 20, 9'000'000, 5'000'000};
  const Scenario within = within_room(scenario_with_reserves(), room);
  const TierCapacities usable = usable_memory(within.machine);
  EXPECT_EQ(usable.hbm, room.hbm);
  EXPECT_EQ(usable.dram, room.dram);
  EXPECT_EQ(usable.nvme, room.nvme);
}

TEST(MemoryOn, CapacitiesAreWhatTheMachineLeavesOfEachTier) {
  Scenario scenario = scenario_with_reserves();
  scenario.policy.nvme_states = -1;
  const std::vector<TierMemory> memory = memory_on(make_schedule(scenario.policy_input()), scenario);
  const TierCapacities usable = usable_memory(scenario.machine);
  ASSERT_EQ(memory.size(), 3u);
  EXPECT_EQ(memory[0].tier.capacity_bytes, usable.hbm);
  EXPECT_EQ(memory[1].tier.capacity_bytes, usable.dram);
  EXPECT_EQ(memory[2].tier.capacity_bytes, usable.nvme);
  EXPECT_EQ(usable.nvme, 1 << 24);
}

TEST(ExcessText, NamesEveryTierThatIsTooSmallByHowMuch) {
  Scenario scenario = scenario_with_reserves();
  std::vector<TierMemory> memory = memory_on(make_schedule(scenario.policy_input()), scenario);
  for (TierMemory& tier : memory) tier.arena_bytes = tier.tier.capacity_bytes;
  EXPECT_EQ(excess_text(memory, scenario.machine), "");
  memory[1].arena_bytes += 3 << 20;
  const std::string one = excess_text(memory, scenario.machine);
  EXPECT_EQ(one.find("dram needs "), 0u) << one;
  EXPECT_NE(one.find(", 3.00 MiB too little"), std::string::npos) << one;
  EXPECT_EQ(one.find("; "), std::string::npos) << one;
  memory[0].arena_bytes += 1;
  EXPECT_EQ(excess_text(memory, scenario.machine).find("hbm needs "), 0u);
  EXPECT_NE(excess_text(memory, scenario.machine).find("; dram needs "), std::string::npos);
}

// A file is for one model, length, micro-batch, batch and kind of rows; the capacities that it was written for are not
// asked.
TEST(ProvedSchedule, OfAFileIsForTheScenariosWorkload) {
  const Scenario planned = test::small_scenario(small::llama());
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "schedule.json";
  const Schedule written = make_schedule(planned.policy_input());
  write_schedule(written, file);
  const auto refusal = [&](const std::function<void(Scenario&)>& change) {
    Scenario scenario = planned;
    change(scenario);
    return error_text([&] { proved_schedule(scenario, file); });
  };
  Scenario smaller = planned;
  smaller.machine.dram_bytes /= 2;
  smaller.model.config.name = "another name";
  EXPECT_EQ(schedule_hash(proved_schedule(smaller, file)), schedule_hash(written));
  EXPECT_NE(refusal([](Scenario& s) { s.model = small::qwen3(); }).find("is for model"), std::string::npos);
  EXPECT_NE(refusal([](Scenario& s) { s.sequence_length = 64; }).find("is for sequence length 32"), std::string::npos);
  EXPECT_NE(refusal([](Scenario& s) { s.micro_batch = 4; }).find("is for micro-batch 2"), std::string::npos);
  EXPECT_NE(refusal([](Scenario& s) { s.sequences = 16; }).find("is for sequences per step 8"), std::string::npos);
  EXPECT_NE(refusal([](Scenario& s) { s.rows = BatchKind::packed; }).find("is for rows windows"), std::string::npos);
}

}  // namespace
}  // namespace penstock::sim
