#include "shared/model/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "shared/model/config_json.h"
#include "tests/shared/error_text.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

Model catalogue(const std::string& name) {
  return make_model(read_model_config(source_folder() / "scenarios/models" / (name + ".json")));
}

ModelConfig small_config() {
  ModelConfig config;
  config.name = "small";
  config.hidden = 40;
  config.intermediate = 96;
  config.decoder_layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 10;
  config.vocabulary = 33;
  config.max_positions = 128;
  return config;
}

// --- exact counts -------------------------------------------------------------------------------------------------
// Per decoder layer: (heads + 2 kv) d h for q, k, v (+ the same without h for biases), heads d h for o, 3 h i for the
// MLP, 2 h for norms, 2 d for QK norms; embedding v h; head h, and v h more unless tied.

TEST(ModelCount, Qwen25_7B) {
  // 28 x (4608*3584 + 4608 + 3584*3584 + 3*3584*18944 + 2*3584) + 2 * 152064*3584 + 3584
  EXPECT_EQ(catalogue("qwen2.5-7b").parameters, 7'615'616'512);
}

TEST(ModelCount, Qwen25_05B_CountsTheTiedMatrixOnce) {
  // 24 x (1152*896 + 1152 + 896*896 + 3*896*4864 + 2*896) + 151936*896 + 896
  EXPECT_EQ(catalogue("qwen2.5-0.5b").parameters, 494'032'768);
}

TEST(ModelCount, Qwen25_3B) {
  // 36 x (2560*2048 + 2560 + 2048*2048 + 3*2048*11008 + 2*2048) + 151936*2048 + 2048
  const std::int64_t decoder = 2560 * 2048 + 2560 + 2048 * 2048 + 3LL * 2048 * 11008 + 2 * 2048;
  EXPECT_EQ(36 * decoder + 151936LL * 2048 + 2048, 3'085'938'688);
  EXPECT_EQ(catalogue("qwen2.5-3b").parameters, 3'085'938'688);
}

TEST(ModelCount, Qwen25_72B) { EXPECT_EQ(catalogue("qwen2.5-72b").parameters, 72'706'203'648); }

// GPT-OSS-120B has 116.83e9 parameters; this is 0.02 % less, all of them dense.
TEST(ModelCount, Dense120B) { EXPECT_EQ(catalogue("dense-120b").parameters, 116'804'036'608); }

TEST(ModelCount, Qwen25_OtherSizes) {
  // 28 x (2048*1536 + 2048 + 1536*1536 + 3*1536*8960 + 2*1536) + 151936*1536 + 1536, tied
  EXPECT_EQ(catalogue("qwen2.5-1.5b").parameters, 1'543'714'304);
  // 48 x (7168*5120 + 7168 + 5120*5120 + 3*5120*13824 + 2*5120) + 2 * 152064*5120 + 5120
  EXPECT_EQ(catalogue("qwen2.5-14b").parameters, 14'770'033'664);
  // 64 x (7168*5120 + 7168 + 5120*5120 + 3*5120*27648 + 2*5120) + 2 * 152064*5120 + 5120
  EXPECT_EQ(catalogue("qwen2.5-32b").parameters, 32'763'876'352);
}

TEST(ModelCount, Llama31) {
  // 32 x (6144*4096 + 4096*4096 + 3*4096*14336 + 2*4096) + 2 * 128256*4096 + 4096
  EXPECT_EQ(catalogue("llama-3.1-8b").parameters, 8'030'261'248);
  EXPECT_EQ(catalogue("llama-3.1-70b").parameters, 70'553'706'496);
}

TEST(ModelCount, Qwen3_8B_HasQkNorms) {
  // 36 x (6144*4096 + 4096*4096 + 3*4096*12288 + 2*4096 + 2*128) + 2 * 151936*4096 + 4096
  EXPECT_EQ(catalogue("qwen3-8b").parameters, 8'190'735'360);
}

TEST(ModelCount, Qwen3_32B_HasHeadDimApartFromHidden) {
  // 64 heads of 128 = 8192 query columns over a hidden size of 5120
  const std::int64_t decoder = 10240LL * 5120 + 8192LL * 5120 + 3LL * 5120 * 25600 + 2 * 5120 + 2 * 128;
  EXPECT_EQ(catalogue("qwen3-32b").parameters, 64 * decoder + 2 * 151936LL * 5120 + 5120);
}

TEST(ModelCount, Mistral7Bv03) {
  // 32 x (6144*4096 + 4096*4096 + 3*4096*14336 + 2*4096) + 2 * 32768*4096 + 4096
  EXPECT_EQ(catalogue("mistral-7b-v0.3").parameters, 7'248'023'552);
}

// --- layout -------------------------------------------------------------------------------------------------------

TEST(ModelLayout, GroupsStartAlignedAndTensorsOfAGroupTouch) {
  ModelConfig config = small_config();
  config.qkv_bias = true;
  config.qk_norm = true;
  const Model model = make_model(config);
  ASSERT_EQ(model.layer_count(), 4);
  const DecoderOffsets& at = model.decoder;
  EXPECT_EQ(at.input_norm, 0);
  EXPECT_EQ(at.qkv, 64);                                    // 40 rounded up to 64
  EXPECT_EQ(at.qkv_bias, 64 + 3200);                        // 80 rows x 40 = 3200 = 50 x 64
  EXPECT_EQ(at.q_norm, 3264 + 128);                         // 80 biases
  EXPECT_EQ(at.k_norm, 3392 + 64);                          // 10
  EXPECT_EQ(at.attention_output, 3456 + 64);                // 10
  EXPECT_EQ(at.middle_norm, 3520 + 1600);                   // 40 x 40 = 25 x 64
  EXPECT_EQ(at.gate_up, 5120 + 64);                         // 40
  EXPECT_EQ(at.down, 5184 + 7680);                          // 192 x 40 = 120 x 64
  EXPECT_EQ(model.layers[1].state_elements, 12864 + 3840);  // 40 x 96 = 60 x 64
  EXPECT_EQ(model.layers[1].parameters, 40 + 3200 + 80 + 10 + 10 + 1600 + 40 + 7680 + 3840);

  const auto& tensors = model.layers[2].tensors;
  ASSERT_EQ(tensors.size(), 14u);
  EXPECT_EQ(tensors[1].name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(tensors[2].name, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(tensors[2].offset, 64 + 40 * 40);            // right behind q's 40 rows
  EXPECT_EQ(tensors[3].offset, 64 + 40 * 40 + 20 * 40);  // right behind k's 20 rows
  EXPECT_EQ(tensors[6].name, "model.layers.1.self_attn.v_proj.bias");
  EXPECT_EQ(tensors[6].offset, 3264 + 40 + 20);
  EXPECT_EQ(tensors[12].name, "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(tensors[12].offset, 5184 + 96 * 40);
  EXPECT_EQ(tensors[13].rows, 40);
  EXPECT_EQ(tensors[13].columns, 96);
}

TEST(ModelLayout, GroupsThatAModelLacksHaveNoOffset) {
  const Model model = make_model(small_config());
  EXPECT_EQ(model.decoder.qkv_bias, -1);
  EXPECT_EQ(model.decoder.q_norm, -1);
  EXPECT_EQ(model.decoder.k_norm, -1);
  EXPECT_EQ(model.layers[1].tensors.size(), 9u);
}

TEST(ModelLayout, UntiedHeadOwnsItsProjection) {
  const Model model = make_model(small_config());
  const Layer& head = model.layers.back();
  EXPECT_EQ(head.kind, LayerKind::head);
  EXPECT_EQ(head.index, 3);
  ASSERT_EQ(head.tensors.size(), 2u);
  EXPECT_EQ(head.tensors[0].name, "model.norm.weight");
  EXPECT_EQ(head.tensors[1].name, "lm_head.weight");
  EXPECT_EQ(model.head.projection, 64);
  EXPECT_EQ(head.tensors[1].offset, 64);
  EXPECT_EQ(head.state_elements, 64 + 1344);  // 33 x 40 = 1320, rounded up to 21 x 64
  EXPECT_EQ(head.gradient_elements, head.state_elements);
  EXPECT_EQ(head.parameters, 40 + 1320);
}

TEST(ModelLayout, TiedHeadHasTheProjectionInItsGradientOnly) {
  ModelConfig config = small_config();
  config.tied_embeddings = true;
  const Model model = make_model(config);
  const Layer& head = model.layers.back();
  ASSERT_EQ(head.tensors.size(), 1u);
  EXPECT_EQ(head.parameters, 40);
  EXPECT_EQ(head.state_elements, 64);
  EXPECT_EQ(model.head.projection, 64);
  EXPECT_EQ(head.gradient_elements, 64 + 1344);
  // The head's part has the embedding's own length, so that the two can be added element by element.
  EXPECT_EQ(head.gradient_elements - model.head.projection, model.layers[0].gradient_elements);
  EXPECT_EQ(model.layers[0].tensors[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(model.parameters, 1320 + 2 * model.layers[1].parameters + 40);
}

// --- what is refused ----------------------------------------------------------------------------------------------

/// The message for a config that must be refused; empty if it was accepted.
std::string refusal(const ModelConfig& config) {
  return error_text([&] { check_model_config(config, "models/x.json"); });
}

TEST(CheckModelConfig, AcceptsASoundOne) { EXPECT_EQ(refusal(small_config()), ""); }

TEST(CheckModelConfig, NamesPlaceKeyValueAndWhatWouldBeRight) {
  ModelConfig config = small_config();
  config.hidden = 0;
  EXPECT_EQ(refusal(config), "models/x.json: hidden_size: expected a whole number from 1 to 262144, found 0");
}

TEST(CheckModelConfig, RefusesSizesThatContradictEachOther) {
  ModelConfig config = small_config();
  config.kv_heads = 3;
  EXPECT_EQ(refusal(config), "models/x.json: num_key_value_heads: 3 does not divide num_attention_heads = 4");
  config = small_config();
  config.kv_heads = 8;  // more than query heads
  EXPECT_NE(refusal(config), "");
  config = small_config();
  config.head_dim = 9;
  EXPECT_NE(refusal(config).find("head_dim: expected an even number"), std::string::npos);
}

TEST(CheckModelConfig, RefusesAbsurdSizes) {
  for (auto member :
       {&ModelConfig::hidden, &ModelConfig::intermediate, &ModelConfig::decoder_layers, &ModelConfig::heads,
        &ModelConfig::kv_heads, &ModelConfig::head_dim, &ModelConfig::vocabulary, &ModelConfig::max_positions}) {
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 40}) {
      ModelConfig config = small_config();
      config.*member = value;
      EXPECT_NE(refusal(config), "") << value;
    }
  }
}

TEST(CheckModelConfig, RefusesRotaryFiguresThatDivideByZero) {
  ModelConfig config = small_config();
  config.rope_low_freq_factor = config.rope_high_freq_factor = 2;
  EXPECT_NE(refusal(config).find("high_freq_factor"), std::string::npos);
  config = small_config();
  config.rms_epsilon = std::nan("");
  EXPECT_NE(refusal(config).find("rms_norm_eps"), std::string::npos);
}

}  // namespace
}  // namespace penstock
