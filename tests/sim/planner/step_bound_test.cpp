// The bound never exceeds what the simulator says, over a sweep of every choice that it counts; and it is no empty
// promise: where one resource is slow, it comes close.
#include "sim/planner/step_bound.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "shared/error.h"
#include "sim/simulate.h"
#include "tests/sim/planner/any_parameters.h"
#include "tests/sim/planner/small_scenario.h"
#include "tests/sim/profile_machine.h"

namespace penstock::sim {
namespace {

TEST(StepBound, NeverExceedsTheSimulatedStep) {
  std::mt19937 random(7);
  int simulated = 0, with_nvme = 0;
  for (int i = 0; i < 900; ++i) {
    Scenario scenario = test::small_scenario(i % 2 == 0 ? small::llama() : small::qwen2_tied());
    // One part at a time is the slow one, so that every term decides somewhere; in every third case like a profile.
    Machine& machine = scenario.machine;
    if (i % 3 == 2) machine = test::profile_machine();
    machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
    if (i % 6 == 1) machine.link.h2d.bytes_per_second = 2e6;
    if (i % 6 == 2) machine.link.d2h.bytes_per_second = 2e6;
    if (i % 6 == 3) machine.cpu.dram_bytes_per_second = 8e6;
    if (i % 6 == 5) machine.nvme.read_bytes_per_second = machine.nvme.write_bytes_per_second = 1e6;
    if (i % 6 == 4) machine.gpu.matmul_flops_per_second = machine.gpu.matmul_burst_flops_per_second = 2e8;
    scenario.micro_batch = test::any_of(random, {1, 2, 4, 8});
    scenario.policy = test::any_parameters(random);
    const PolicyInput input = scenario.policy_input();
    try {
      arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    const double step = simulate(make_schedule(input), machine, {64, false, false}).step_seconds;
    const StepBound bound = step_bound(input, machine);
    EXPECT_LE(bound.seconds(), step * (1 + 1e-9)) << scenario.policy.name << " " << bound.binding() << " case " << i;
    EXPECT_GT(bound.seconds(), 0.1 * step) << scenario.policy.name << " case " << i;
    ++simulated;
    with_nvme += scenario.policy.nvme_states != 0 || scenario.policy.nvme_weights != 0;
  }
  EXPECT_GT(simulated, 200);
  EXPECT_GT(with_nvme, 50);
}

TEST(StepBound, NeverExceedsTheStepOfSequencesThatAreCut) {
  std::mt19937 random(9);
  int simulated = 0;
  for (int i = 0; i < 120; ++i) {
    Scenario scenario = test::small_scenario(i % 2 == 0 ? small::llama() : small::qwen2_tied());
    Machine& machine = scenario.machine;
    machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
    if (i % 3 == 1) machine.link.h2d.bytes_per_second = 2e6;
    if (i % 3 == 2) machine.gpu.matmul_flops_per_second = machine.gpu.matmul_burst_flops_per_second = 2e8;
    scenario.micro_batch = 1;
    scenario.chunk_tokens = test::any_of<std::int64_t>(random, {8, 13, 31});
    scenario.policy = test::any_parameters(random);
    const PolicyInput input = scenario.policy_input();
    ArenaBytes arenas;
    try {
      arenas = arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    const Schedule schedule = make_schedule(input);
    std::int64_t hbm = 0;
    for (const Buffer& buffer : schedule.buffers)
      if (schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::hbm)
        hbm = std::max(hbm, buffer.offset_bytes + buffer.bytes);
    EXPECT_EQ(arenas.hbm, hbm) << "case " << i;
    const double step = simulate(schedule, machine, {64, false, false}).step_seconds;
    const StepBound bound = step_bound(input, machine);
    EXPECT_LE(bound.seconds(), step * (1 + 1e-9)) << scenario.policy.name << " " << bound.binding() << " case " << i;
    EXPECT_GT(bound.seconds(), 0.05 * step) << scenario.policy.name << " case " << i;
    ++simulated;
  }
  EXPECT_GT(simulated, 30);
}

TEST(StepBound, CountsWhatGoesThroughTheDrive) {
  // Of two layers: low bits and moments, 10 B/param, and the gradient's 2, in and out. Their weights too: read in
  // forward and, but for the two slots, not in backward; read and written by the update.
  Scenario scenario = test::small_scenario(small::llama());
  scenario.machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
  scenario.policy.nvme_states = 2;
  scenario.policy.gradients = TierKind::nvme;
  const double elements = 2.0 * static_cast<double>(scenario.model.layers[1].state_elements);
  EXPECT_DOUBLE_EQ(step_bound(scenario.policy_input(), scenario.machine).nvme_read, 12 * elements / 15e6);
  EXPECT_DOUBLE_EQ(step_bound(scenario.policy_input(), scenario.machine).nvme_write, 12 * elements / 12e6);
  scenario.policy.nvme_weights = 2;
  EXPECT_DOUBLE_EQ(step_bound(scenario.policy_input(), scenario.machine).nvme_read, (12 + 2 + 2) * elements / 15e6);
  EXPECT_DOUBLE_EQ(step_bound(scenario.policy_input(), scenario.machine).nvme_write, (12 + 2) * elements / 12e6);
}

TEST(StepBound, CountsTheWeightsThatCrossTheLink) {
  // One group, two slots, five decoders: 5 loads forward, 5 - 2 backward; embedding and head (untied) once each.
  Scenario scenario = test::small_scenario(small::llama());
  const PolicyInput input = scenario.policy_input();
  const Model& model = scenario.model;
  const double decoder = 2.0 * static_cast<double>(model.layers[1].state_elements);
  const double edges = 2.0 * static_cast<double>(model.layers[0].state_elements + model.layers[6].state_elements);
  EXPECT_DOUBLE_EQ(step_bound(input, scenario.machine).h2d, (8 * decoder + edges) / 20e6);
}

TEST(StepBound, BothDirectionsShareTheLink) {
  // While both run each gets its duplex rate: the shorter direction runs at it all along.
  Scenario scenario = test::small_scenario(small::llama());
  const StepBound bound = step_bound(scenario.policy_input(), scenario.machine);
  const double up = bound.h2d * 20e6, down = bound.d2h * 22e6;
  const double together = std::min(up / 17e6, down / 16e6);
  EXPECT_NEAR(bound.link, together + (up - 17e6 * together) / 20e6 + (down - 16e6 * together) / 22e6, 1e-12);
  EXPECT_GT(bound.link, std::max(bound.h2d, bound.d2h));
}

TEST(ArenaBytes, AreThoseOfTheSchedule) {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    Scenario scenario = test::small_scenario(i % 2 == 0 ? small::qwen3() : small::qwen2_tied());
    scenario.policy = test::any_parameters(random);
    const PolicyInput input = scenario.policy_input();
    ArenaBytes arenas;
    try {
      arenas = arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    std::map<TierKind, std::int64_t> ends;
    const Schedule schedule = make_schedule(input);
    for (const Buffer& buffer : schedule.buffers) {
      std::int64_t& end = ends[schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind];
      end = std::max(end, buffer.offset_bytes + buffer.bytes);
    }
    EXPECT_EQ(arenas.hbm, ends[TierKind::hbm]);
    EXPECT_EQ(arenas.dram, ends[TierKind::dram]);
    EXPECT_EQ(arenas.nvme, ends[TierKind::nvme]);
  }
}

}  // namespace
}  // namespace penstock::sim
