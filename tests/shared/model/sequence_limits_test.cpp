#include "shared/model/sequence_limits.h"

#include <gtest/gtest.h>

#include <limits>

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

// A token attends to `window` tokens, itself among them: the last of as many still attends to the first.
TEST(SequenceLimits, AWindowAsLongAsTheSequenceHidesNothing) {
  ModelConfig config = config_of(ModelFamily::mistral);
  config.sliding_window = 64;
  EXPECT_EQ(longest_whole_attention(config), 64);
  EXPECT_EQ(window_reached(config, 64), "");
  EXPECT_MENTIONS(window_reached(config, 65), "65 tokens are more than the sliding window of 64 within which small");
  EXPECT_MENTIONS(window_reached(config, 65), "expected at most 64, or a config.json with \"sliding_window\": null");
  config.family = ModelFamily::qwen2;
  EXPECT_TRUE(window_reached(config, 65).ends_with("expected at most 64"));
}

TEST(SequenceLimits, AWindowOnNoLayerHidesNothing) {
  ModelConfig config = config_of(ModelFamily::qwen2);
  EXPECT_EQ(longest_whole_attention(config), std::numeric_limits<std::int64_t>::max());
  config.sliding_window = 64;
  config.first_window_layer = 4;
  EXPECT_EQ(window_reached(config, 1 << 20), "");
  // `[model] layers` may ask for more layers than config.json has.
  config.decoder_layers = 5;
  EXPECT_NE(window_reached(config, 65), "");
}

TEST(SequenceLimits, ScalingsMatterFromTheirLengthOn) {
  ModelConfig config = config_of(ModelFamily::llama);
  EXPECT_EQ(rope_not_computed(config, 1 << 20), "");
  config.rope_scaling = RopeScaling::linear;
  EXPECT_MENTIONS(rope_not_computed(config, 1),
                  "small has rope_type \"linear\", whose rotary frequencies the executor does not "
                  "compute; expected \"default\" or \"llama3\"");
  config.rope_scaling = RopeScaling::dynamic;
  config.rope_scaling_from = 1024;
  EXPECT_EQ(rope_not_computed(config, 1024), "");
  EXPECT_MENTIONS(rope_not_computed(config, 1025),
                  "\"dynamic\" for sequences of more than 1024 tokens, whose rotary frequencies");
  EXPECT_MENTIONS(rope_not_computed(config, 1025), "or sequences of at most 1024 tokens");
}

TEST(SequenceLimits, NotesSayWhatIsNotRefused) {
  ModelConfig config = config_of(ModelFamily::llama);
  EXPECT_TRUE(length_notes(config, 1024).empty());
  ASSERT_EQ(length_notes(config, 1025).size(), 1u);
  EXPECT_EQ(length_notes(config, 1025)[0],
            "sequences of 1025 tokens are longer than small's max_position_embeddings = 1024; rotary positions go on "
            "beyond it");
  config.rope_scaling = RopeScaling::yarn;
  EXPECT_EQ(length_notes(config, 1025).size(), 2u);
}

TEST(SequenceLimits, WhoTrainsRefusesBoth) {
  ModelConfig config = config_of(ModelFamily::mistral);
  EXPECT_EQ(error_text([&] { require_computed(config, 2048, "s.toml"); }), "");
  config.rope_scaling = RopeScaling::linear;
  EXPECT_MENTIONS(error_text([&] { require_computed(config, 8, "s.toml"); }), "s.toml: small has rope_type \"linear\"");
  config.sliding_window = 4;
  EXPECT_MENTIONS(error_text([&] { require_computed(config, 8, "s.toml"); }), "s.toml: 8 tokens are more than");
}

}  // namespace
}  // namespace penstock
