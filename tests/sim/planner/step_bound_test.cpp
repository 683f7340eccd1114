// The bound never exceeds what the simulator says, over a sweep of every choice that it counts; and it is no empty
// promise: where one resource is slow, it comes close.
#include "sim/planner/step_bound.h"

#include <gtest/gtest.h>

#include <random>

#include "shared/error.h"
#include "sim/simulate.h"
#include "tests/sim/planner/small_scenario.h"

namespace penstock::sim {
namespace {

template <typename T>
T any_of(std::mt19937& random, std::initializer_list<T> values) {
  return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random));
}

PolicyParameters any_parameters(std::mt19937& random) {
  const auto& infos = presets();
  PolicyParameters p =
      preset_parameters(infos[std::uniform_int_distribution<std::size_t>(0, infos.size() - 1)(random)].name);
  p.group = any_of(random, {0, 1, 2});
  p.weight_buffers = any_of(random, {1, 2, 3, 6});
  p.resident_weights = any_of(random, {-1, 0, 0, 2, 5});
  p.resident_states = any_of(random, {-1, 0, 0, 1, 3});
  p.keep = any_of(random, {Keep::input, Keep::input_attention, Keep::everything});
  p.checkpoint_every = any_of(random, {1, 1, 2, 3});
  p.activations = any_of(random, {TierKind::hbm, TierKind::dram});
  p.gradients = any_of(random, {TierKind::hbm, TierKind::dram});
  p.gradient_sums = any_of(random, {TierKind::hbm, TierKind::dram});
  p.optimizer_place = any_of(random, {OptimizerPlace::host, OptimizerPlace::gpu});
  p.optimizer_time = any_of(random, {OptimizerTime::end, OptimizerTime::next_forward});
  return p;
}

TEST(StepBound, NeverExceedsTheSimulatedStep) {
  std::mt19937 random(7);
  int simulated = 0;
  for (int i = 0; i < 600; ++i) {
    Scenario scenario = test::small_scenario(i % 2 == 0 ? small::llama() : small::qwen2_tied());
    // One part at a time is the slow one, so that every term decides somewhere.
    Machine& machine = scenario.machine;
    if (i % 5 == 1) machine.link.h2d.bytes_per_second = 2e6;
    if (i % 5 == 2) machine.link.d2h.bytes_per_second = 2e6;
    if (i % 5 == 3) machine.cpu.dram_bytes_per_second = 8e6;
    if (i % 5 == 4) machine.gpu.matmul_flops_per_second = machine.gpu.matmul_burst_flops_per_second = 2e8;
    scenario.micro_batch = any_of(random, {1, 2, 4, 8});
    scenario.policy = any_parameters(random);
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
  }
  EXPECT_GT(simulated, 200);
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
    scenario.policy = any_parameters(random);
    const PolicyInput input = scenario.policy_input();
    ArenaBytes arenas;
    try {
      arenas = arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    std::int64_t hbm = 0, dram = 0;
    const Schedule schedule = make_schedule(input);
    for (const Buffer& buffer : schedule.buffers) {
      std::int64_t& end = schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::hbm ? hbm : dram;
      end = std::max(end, buffer.offset_bytes + buffer.bytes);
    }
    EXPECT_EQ(arenas.hbm, hbm);
    EXPECT_EQ(arenas.dram, dram);
  }
}

}  // namespace
}  // namespace penstock::sim
