#include "shared/model/sequence_limits.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

ModelConfig config_of(ModelFamily family) {
  ModelConfig config;
  config.name = "small";
  config.family = family;
  config.decoder_layers = 4;
  config.max_positions = 1024;
  return config;
}

constexpr BatchKind kText = BatchKind::windows, kPacked = BatchKind::packed;

TEST(SequenceLimits, ScalingsThatAreNotComputed) {
  ModelConfig config = config_of(ModelFamily::llama);
  for (const RopeScaling computed : {RopeScaling::none, RopeScaling::linear, RopeScaling::yarn}) {
    config.rope_scaling = computed;
    EXPECT_EQ(rope_not_computed(config, 1 << 20, kText), "");
    EXPECT_EQ(rope_not_computed(config, 1 << 20, kPacked), "");
  }
  config.rope_scaling = RopeScaling::longrope;
  EXPECT_MENTIONS(rope_not_computed(config, 1, kText),
                  "small has rope_type \"longrope\", whose rotary frequencies the executor does not compute; expected "
                  "one of \"default\", \"llama3\", \"linear\", \"dynamic\", \"yarn\"");
}

// transformers goes by the longest sequence that a model ever saw, which is a row's in text alone.
TEST(SequenceLimits, DynamicScalingOfDocumentsEndsAtTheModelsPositions) {
  ModelConfig config = config_of(ModelFamily::llama);
  config.rope_scaling = RopeScaling::dynamic;
  EXPECT_EQ(rope_not_computed(config, 1025, kText), "");
  EXPECT_EQ(rope_not_computed(config, 1024, kPacked), "");
  EXPECT_MENTIONS(rope_not_computed(config, 1025, kPacked), "rows of 1025 tokens hold documents of more than");
}

TEST(SequenceLimits, TheLoadBalancingLossIsOfWholeSequences) {
  ModelConfig config = config_of(ModelFamily::olmoe);
  config.experts.count = 8;
  EXPECT_EQ(cut_not_computed(config), "");
  config.experts.balance = 0.01;
  EXPECT_MENTIONS(cut_not_computed(config), "small asks for the load-balancing loss of its experts");
  config.experts.count = 0;
  EXPECT_EQ(cut_not_computed(config), "");
}

TEST(SequenceLimits, NotesSayWhatIsNotRefused) {
  ModelConfig config = config_of(ModelFamily::llama);
  EXPECT_TRUE(length_notes(config, 1024, kText).empty());
  ASSERT_EQ(length_notes(config, 1025, kText).size(), 1u);
  EXPECT_EQ(length_notes(config, 1025, kText)[0],
            "sequences of 1025 tokens are longer than small's max_position_embeddings = 1024; rotary positions go on "
            "beyond it");
  config.rope_scaling = RopeScaling::longrope;
  EXPECT_EQ(length_notes(config, 1025, kText).size(), 2u);
}

TEST(SequenceLimits, WhoTrainsRefuses) {
  ModelConfig config = config_of(ModelFamily::mistral);
  EXPECT_EQ(error_text([&] { require_computed(config, 2048, kText, "s.toml"); }), "");
  config.rope_scaling = RopeScaling::proportional;
  EXPECT_MENTIONS(error_text([&] { require_computed(config, 8, kText, "s.toml"); }),
                  "s.toml: small has rope_type \"proportional\"");
}

}  // namespace
}  // namespace penstock
