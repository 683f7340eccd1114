// Schedules of a model whose layers are not alike: small::experts has dense layers and mixtures of experts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/plan.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

void expect_sound(const PolicyInput& in, const std::string& what) {
  const std::vector<Fault> found = check_schedule(make_schedule(in), 1);
  EXPECT_TRUE(found.empty()) << what << ": " << found.front().text;
}

TEST(ExpertsSchedule, EveryPresetIsSound) {
  for (const PresetInfo& preset : presets()) expect_sound(small::input(small::experts(), preset.name), preset.name);
}

TEST(ExpertsSchedule, KeepLevelsGroupsBlocksAndChunks) {
  for (const Keep keep : kKeeps)
    for (const int group : {1, 2, 0})
      for (const int every : {1, 2})
        for (const std::int64_t mlp_tokens : {0, 16})
          for (const TierKind activations : {TierKind::hbm, TierKind::dram}) {
            if (keep == Keep::everything && every > 1) continue;
            PolicyInput in = small::input(small::experts(), "penstock");
            in.parameters.keep = keep;
            in.parameters.group = group;
            in.parameters.checkpoint_every = every;
            in.parameters.activations = activations;
            in.parameters.numerics.chunking.mlp_tokens = mlp_tokens;
            expect_sound(in, fmt::format("keep {} group {} every {} chunk {}", int(keep), group, every, mlp_tokens));
          }
}

TEST(ExpertsSchedule, ResidencyAndTheDrive) {
  for (int count = -1; count <= 5; ++count)
    for (const bool states : {false, true}) {
      PolicyInput in = small::input(small::experts(), "penstock");
      (states ? in.parameters.resident_states : in.parameters.resident_weights) = count;
      expect_sound(in, fmt::format("resident {} {}", count, states));
    }
  PolicyInput in = small::input(small::experts(), "zero-infinity");
  expect_sound(in, "zero-infinity");
  in.parameters.burst = BurstKind::tensor;
  expect_sound(in, "zero-infinity, by tensor");
}

TEST(ExpertsSchedule, FrozenLayers) {
  for (const auto& names : small::frozen_sets(small::experts()))
    expect_sound(small::input(small::frozen(small::experts(), names), "penstock"), names.front());
}

/// A slot takes whatever layer passes through.
TEST(ExpertsSchedule, SlotsAreAsLargeAsTheLargestLayer) {
  PolicyInput in = small::input(small::experts(), "penstock");
  in.parameters.resident_weights = 0;
  in.parameters.resident_states = 0;
  const Schedule schedule = make_schedule(in);
  const auto slot = std::find_if(schedule.buffers.begin(), schedule.buffers.end(),
                                 [](const Buffer& buffer) { return buffer.name == "weights slot 0"; });
  ASSERT_NE(slot, schedule.buffers.end());
  EXPECT_EQ(slot->bytes, 2 * in.model.layers[2].state_elements);
  EXPECT_GT(in.model.layers[2].state_elements, in.model.layers[1].state_elements);
}

TEST(ExpertsSchedule, IsWrittenAndReadAsItIs) {
  PolicyInput in = small::input(small::experts(), "penstock");
  in.expert_skew = 2.5;
  const Schedule schedule = make_schedule(in);
  const Schedule back = parse_schedule(schedule_text(schedule), "here");
  EXPECT_EQ(back.model, schedule.model);
  EXPECT_EQ(back.micro_batch.expert_skew, 2.5);
  EXPECT_EQ(schedule_hash(back), schedule_hash(schedule));
  // What routing is expected decides nothing; which layers have experts does.
  in.expert_skew = 1;
  EXPECT_EQ(schedule_hash(make_schedule(in)), schedule_hash(schedule));
  ModelConfig other = in.model.config;
  other.experts.normalised = false;
  in.model = make_model(other);
  EXPECT_NE(schedule_hash(make_schedule(in)), schedule_hash(schedule));
}

}  // namespace
}  // namespace penstock
