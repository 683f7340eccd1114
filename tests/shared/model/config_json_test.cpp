#include "shared/model/config_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "shared/error.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const std::string kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 176,
  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
  "max_position_embeddings": 512, "torch_dtype": "bfloat16", "bos_token_id": 1
})";
const std::string kQwen3 = R"({
  "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256, "max_position_embeddings": 512
})";

ModelConfig read(const std::string& text) {
  const TemporaryFolder folder;
  return read_model_config(folder.write("small.json", text));
}

/// Adds `member` to the Llama config.
ModelConfig read_with(const std::string& member) { return read(replaced(kLlama, "\"bos_token_id\": 1", member)); }

std::string refusal(const std::string& text) {
  return error_text([&] { read(text); });
}
std::string refusal_with(const std::string& member) { return refusal(replaced(kLlama, "\"bos_token_id\": 1", member)); }

TEST(ConfigJson, APublishedModelIsCalledByItsFolder) {
  const TemporaryFolder folder;
  const auto name = [&](const char* file) {
    folder.write(file, kLlama);
    return read_model_config(folder.path() / file).name;
  };
  EXPECT_EQ(name("Qwen2.5-7B/config.json"), "Qwen2.5-7B");
  EXPECT_EQ(name("my.model/./config.json"), "my.model");
  EXPECT_EQ(name("Qwen2.5-7B/x.json"), "x");
  EXPECT_EQ(name("hub/models--Qwen--Qwen2.5-7B/snapshots/060db6499f32faf8b98477b0a26969ef7d8b9987/config.json"),
            "models--Qwen--Qwen2.5-7B");
  EXPECT_EQ(name("config.json"), folder.path().filename().string());
}

TEST(ConfigJson, ReadsSizesAndFillsInHuggingFaceDefaults) {
  const ModelConfig config = read(kLlama);
  EXPECT_EQ(config.name, "small");
  EXPECT_EQ(config.family, ModelFamily::llama);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.intermediate, 176);
  EXPECT_EQ(config.decoder_layers, 3);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);  // 64 / 4
  EXPECT_EQ(config.vocabulary, 256);
  EXPECT_EQ(config.max_positions, 512);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_EQ(config.rms_epsilon, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.rope_factor, 1.0);
}

TEST(ConfigJson, FamiliesDecideBiasAndQkNorm) {
  const ModelConfig qwen2 = read(replaced(replaced(kLlama, "\"llama\"", "\"qwen2\""), "LlamaFor", "Qwen2For"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.qk_norm);
  const ModelConfig qwen3 = read(kQwen3);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 32);  // given, not 64 / 4
}

TEST(ConfigJson, NullCountsAsMissing) {
  EXPECT_EQ(read_with("\"head_dim\": null").head_dim, 16);
  EXPECT_EQ(read(replaced(kLlama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": null")).kv_heads, 4);
  EXPECT_EQ(read_with("\"rope_scaling\": null").rope_factor, 1.0);
}

TEST(ConfigJson, ReadsLlama3RopeScalingInBothSpellings) {
  const std::string figures =
      "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4.5, \"original_max_position_embeddings\": 128";
  for (const std::string& member :
       {"\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", " + figures + "}",
        "\"rope_theta\": 500000, \"rope_scaling\": {\"type\": \"llama3\", " + figures + "}",
        "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000, " + figures + "}"}) {
    const ModelConfig config = read_with(member);
    EXPECT_EQ(config.rope_theta, 500000.0) << member;
    EXPECT_EQ(config.rope_factor, 8.0);
    EXPECT_EQ(config.rope_low_freq_factor, 1.0);
    EXPECT_EQ(config.rope_high_freq_factor, 4.5);
    EXPECT_EQ(config.rope_original_positions, 128);
  }
}

TEST(ConfigJson, RopeParametersOfDefaultTypeGiveTheta) {
  EXPECT_EQ(read_with("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1000000.0}").rope_theta, 1e6);
}

TEST(ConfigJson, RefusesOtherMathematics) {
  EXPECT_MENTIONS(refusal_with("\"hidden_act\": \"gelu\""), "small.json.hidden_act: expected \"silu\", found \"gelu\"");
  EXPECT_MENTIONS(refusal_with("\"attention_bias\": true"), "attention_bias: true is not supported");
  EXPECT_MENTIONS(refusal_with("\"mlp_bias\": true"), "mlp_bias: true is not supported");
  EXPECT_MENTIONS(refusal_with("\"attention_dropout\": 0.1"), "attention_dropout: expected 0, found 0.1");
  EXPECT_MENTIONS(refusal_with("\"partial_rotary_factor\": 0.5"), "partial_rotary_factor");
  EXPECT_MENTIONS(refusal_with("\"quantization_config\": {}"), "quantization_config");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "LlamaForCausalLM", "LlamaForTokenClassification")), "architectures");
}

// --- what is absent -----------------------------------------------------------------------------------------------

/// The Llama config as one of another family, with more members.
std::string family(const std::string& name, const std::string& members = "\"bos_token_id\": 1") {
  return replaced(replaced(kLlama, "\"llama\"", "\"" + name + "\""), "\"bos_token_id\": 1", members);
}

// transformers 4.46.3 and 5.24.0 agree: LlamaConfig, Qwen2Config, Qwen3Config, MistralConfig.
TEST(ConfigJson, AbsentKeysAreTheFamilysDefaults) {
  const auto without = [](const std::string& text, const std::string& member) { return replaced(text, member, ""); };
  const std::string kv = "\"num_key_value_heads\": 2,", positions = "\"max_position_embeddings\": 512,";
  const auto many_heads = [](const std::string& text) {
    return replaced(text, "\"num_attention_heads\": 4", "\"num_attention_heads\": 32");
  };
  EXPECT_EQ(read(without(kLlama, kv)).kv_heads, 4);  // as many as query heads
  EXPECT_EQ(read(many_heads(without(family("qwen2"), kv))).kv_heads, 32);
  EXPECT_EQ(read(many_heads(without(family("qwen3"), kv))).kv_heads, 32);
  EXPECT_EQ(read(many_heads(without(family("mistral"), kv))).kv_heads, 8);
  EXPECT_MENTIONS(
      refusal(without(family("mistral"), kv)),
      "num_key_value_heads: is missing, and mistral's default of 8 does not divide num_attention_heads = 4");
  // null is as many as query heads in every family.
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral"})
    EXPECT_EQ(read(replaced(family(name), "\"num_key_value_heads\": 2", "\"num_key_value_heads\": null")).kv_heads, 4);
  EXPECT_EQ(read(family("qwen3")).head_dim, 128);
  EXPECT_EQ(read(family("qwen2")).head_dim, 16);
  EXPECT_EQ(read(without(kLlama, positions)).max_positions, 2048);
  EXPECT_EQ(read(without(family("qwen2"), positions)).max_positions, 32768);
  EXPECT_EQ(read(without(family("mistral"), positions)).max_positions, 131072);
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral"}) {
    EXPECT_EQ(read(family(name)).rms_epsilon, 1e-6) << name;
    EXPECT_EQ(read(family(name)).rope_theta, 10000.0) << name;
    EXPECT_FALSE(read(family(name)).tied_embeddings) << name;
  }
}

TEST(ConfigJson, ASlipInAnOptionalKeyIsNotItsDefault) {
  EXPECT_MENTIONS(refusal_with("\"tie_word_embedding\": true"),
                  "small.json.tie_word_embedding: is not a key of config.json; did you mean tie_word_embeddings?");
  EXPECT_MENTIONS(refusal_with("\"rope-theta\": 1e6"), "did you mean rope_theta?");
  EXPECT_MENTIONS(refusal_with("\"headDim\": 32"), "did you mean head_dim?");
  EXPECT_MENTIONS(refusal_with("\"rms_norm_esp\": 1e-5"), "did you mean rms_norm_eps?");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "num_key_value_heads", "num_key_value_head")),
                  "did you mean num_key_value_heads?");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "num_hidden_layers", "num_hidden_layer")),
                  "num_hidden_layers: is missing; expected a whole number from 1 to 4096; there is "
                  "num_hidden_layer: did you mean num_hidden_layers?");
  // Keys of published files that are near to nothing here.
  EXPECT_EQ(refusal_with("\"hidden_dropout\": 0.0, \"rope_interleaved\": false, \"pretraining_tp\": 1, \"use_cache\": "
                         "true, \"initializer_range\": 0.02, \"pad_token_id\": null, \"use_qk_norm\": false"),
            "");
}

// --- sliding windows ----------------------------------------------------------------------------------------------

/// The window and the layers that have it.
using Window = std::pair<std::int64_t, std::vector<int>>;
Window window(const std::string& text) {
  const ModelConfig config = read(text);
  return {config.sliding_window, config.window_layers};
}
const Window kNoWindow{0, {}};

TEST(ConfigJson, MistralsWindowIsThatOfEveryLayer) {
  EXPECT_EQ(window(family("mistral", "\"sliding_window\": 256")), Window(256, {0, 1, 2}));
  EXPECT_EQ(window(family("mistral", "\"sliding_window\": null")), kNoWindow);
  EXPECT_EQ(window(family("mistral")), Window(4096, {0, 1, 2}));  // absent: MistralConfig's default
  EXPECT_EQ(window(family("mistral",
                          "\"sliding_window\": 8, \"layer_types\": [\"full_attention\", "
                          "\"full_attention\", \"full_attention\"]")),
            Window(8, {0, 1, 2}));
  EXPECT_EQ(window(family("ministral", "\"sliding_window\": 8")), Window(8, {0, 1, 2}));
  EXPECT_EQ(window(family("ministral",
                          "\"sliding_window\": 8, \"layer_types\": [\"sliding_attention\", "
                          "\"full_attention\", \"sliding_attention\"]")),
            Window(8, {0, 2}));
  EXPECT_MENTIONS(refusal(family("mistral", "\"sliding_window\": 0")),
                  "sliding_window: expected a whole number from 1");
}

TEST(ConfigJson, QwensWindowIsThatOfTheLastLayersIfItIsAskedFor) {
  for (const char* name : {"qwen2", "qwen3"}) {
    EXPECT_EQ(window(family(name)), kNoWindow);
    EXPECT_EQ(window(family(name, "\"use_sliding_window\": false, \"sliding_window\": 64, \"max_window_layers\": 1")),
              kNoWindow);
    EXPECT_EQ(window(family(name, "\"use_sliding_window\": true, \"sliding_window\": 64, \"max_window_layers\": 1")),
              Window(64, {1, 2}));
    EXPECT_EQ(window(family(name, "\"use_sliding_window\": true, \"sliding_window\": null")), kNoWindow);
    EXPECT_EQ(window(family(name, "\"use_sliding_window\": true")), kNoWindow);  // both by default: from layer 28 on
  }
}

TEST(ConfigJson, LayerTypesSayWhichLayersHaveTheWindow) {
  const std::string full = "\"full_attention\"", sliding = "\"sliding_attention\"";
  const auto types = [&](const std::string& a, const std::string& b, const std::string& c) {
    return "\"layer_types\": [" + a + ", " + b + ", " + c + "]";
  };
  EXPECT_EQ(window(family("qwen2", types(full, full, full) + ", \"sliding_window\": 64")), kNoWindow);
  EXPECT_EQ(window(family("qwen2", types(full, sliding, full) + ", \"sliding_window\": 64")), Window(64, {1}));
  EXPECT_EQ(window(family("qwen3", types(sliding, full, sliding))), Window(4096, {0, 2}));
  EXPECT_EQ(window(family("llama", types(full, full, full) + ", \"sliding_window\": 64")), kNoWindow);
  EXPECT_MENTIONS(refusal(family("llama", types(full, full, sliding) + ", \"sliding_window\": 64")),
                  "layer_types: give layers a sliding window, which transformers' llama does not have");
  EXPECT_MENTIONS(refusal(family("llama", types(full, full, sliding))), "sliding_window: is missing");
  EXPECT_EQ(window(family("qwen2", types(full, full, full) + ", \"use_sliding_window\": false")), kNoWindow);
  EXPECT_MENTIONS(refusal(family("qwen3", types(full, full, sliding) + ", \"use_sliding_window\": false")),
                  "layer_types: gives layers a sliding window, but use_sliding_window is false");
  EXPECT_MENTIONS(refusal(family("qwen2", types(full, full, "\"linear_attention\""))),
                  "layer_types: expected \"full_attention\" or \"sliding_attention\", found \"linear_attention\"");
  EXPECT_MENTIONS(refusal(family("qwen2", "\"layer_types\": [\"full_attention\"]")),
                  "layer_types: 1 entries, but num_hidden_layers = 3");
  EXPECT_MENTIONS(refusal(family("qwen2", "\"use_sliding_window\": \"yes\"")), "use_sliding_window: expected true or");
}

// --- rotary frequencies -------------------------------------------------------------------------------------------

ModelConfig scaled(const std::string& rope) { return read_with("\"rope_scaling\": " + rope); }
RopeScaling scaling(const std::string& rope) { return scaled(rope).rope_scaling; }

TEST(ConfigJson, ReadsScalings) {
  EXPECT_EQ(scaling("{\"type\": \"linear\", \"factor\": 4.0}"), RopeScaling::linear);
  EXPECT_EQ(scaled("{\"type\": \"linear\", \"factor\": 4.0}").rope_factor, 4.0);
  EXPECT_EQ(scaling("{\"rope_type\": \"linear\", \"type\": \"linear\", \"factor\": 2}"), RopeScaling::linear);
  EXPECT_EQ(scaling("{\"type\": \"dynamic\", \"factor\": 2}"), RopeScaling::dynamic);
  EXPECT_EQ(scaling("{\"type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [2]}"), RopeScaling::longrope);
  EXPECT_EQ(scaling("{\"type\": \"su\", \"short_factor\": [1], \"long_factor\": [2]}"), RopeScaling::longrope);
  EXPECT_EQ(
      read_with("\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"rope_theta\": 5e5}").rope_scaling,
      RopeScaling::yarn);
}

TEST(ConfigJson, YarnsKeysThatAreAbsentOrNullFollow) {
  const ModelConfig few = scaled("{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 128}");
  EXPECT_EQ(few.rope_original_positions, 128);
  EXPECT_EQ(few.rope_low_freq_factor, 1);
  EXPECT_EQ(few.rope_high_freq_factor, 32);
  EXPECT_TRUE(few.rope_truncate);
  EXPECT_DOUBLE_EQ(few.rope_attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(scaled("{\"rope_type\": \"yarn\", \"factor\": 4}").rope_original_positions,
            512);  // max_position_embeddings
  const ModelConfig all = scaled(
      "{\"rope_type\": \"yarn\", \"factor\": null, \"original_max_position_embeddings\": 256, \"beta_fast\": 16, "
      "\"beta_slow\": 2, \"mscale\": 0.5, \"mscale_all_dim\": 2, \"truncate\": false}");
  EXPECT_EQ(all.rope_factor, 2);  // 512 / 256
  EXPECT_EQ(all.rope_low_freq_factor, 2);
  EXPECT_EQ(all.rope_high_freq_factor, 16);
  EXPECT_FALSE(all.rope_truncate);
  EXPECT_DOUBLE_EQ(all.rope_attention_factor, (0.05 * std::log(2.0) + 1) / (0.2 * std::log(2.0) + 1));
  // Beside the scaling the key counts before the one in it, as in transformers.
  EXPECT_EQ(
      read_with("\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": "
                "4, \"original_max_position_embeddings\": 128}")
          .rope_original_positions,
      64);
}

TEST(ConfigJson, AScalingByOneIsNone) {
  EXPECT_EQ(scaling("{\"type\": \"linear\", \"factor\": 1.0}"), RopeScaling::none);
  EXPECT_EQ(scaled("{\"type\": \"yarn\", \"factor\": 1.0, \"beta_slow\": 50}"), read_with("\"rope_scaling\": null"));
  EXPECT_EQ(scaling("{\"type\": \"default\"}"), RopeScaling::none);
  EXPECT_EQ(scaling("{}"), RopeScaling::none);
  // Its attention factor scales all the same.
  EXPECT_EQ(scaling("{\"type\": \"yarn\", \"factor\": 1.0, \"attention_factor\": 1.2}"), RopeScaling::yarn);
  // Beyond the context dynamic scaling goes by the length, whatever the factor.
  EXPECT_EQ(scaling("{\"type\": \"dynamic\", \"factor\": 1.0}"), RopeScaling::dynamic);
}

TEST(ConfigJson, RefusesScalingsThatSayTooLittle) {
  const auto rope_refusal = [](const std::string& rope) { return refusal_with("\"rope_scaling\": " + rope); };
  EXPECT_MENTIONS(rope_refusal("{\"factor\": 4}"), "rope_scaling.rope_type: is missing, but there is a factor");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"linear\"}"), "rope_scaling.factor: is missing");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"linear\", \"factor\": 0}"), "factor: expected a number from");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"linear\", \"factor\": \"4\"}"), "factor: expected a number from");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"lnear\", \"factor\": 4}"),
                  "rope_scaling.type: expected one of default, llama3, linear, dynamic, yarn, longrope, proportional, "
                  "found \"lnear\"; did you mean \"linear\"?");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"none\", \"factor\": 4}"), "found \"none\"");
  EXPECT_MENTIONS(rope_refusal("{\"type\": \"linear\", \"rope_type\": \"yarn\", \"factor\": 4}"),
                  "keep one of the two");
  EXPECT_MENTIONS(rope_refusal("\"linear\""), "rope_scaling: expected an object");
  EXPECT_MENTIONS(refusal_with("\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1e4}}"),
                  "differ by the type of layer");
  EXPECT_MENTIONS(rope_refusal("{\"0\": {\"rope_theta\": 1e4}}"), "rope_scaling.0: is a set of its own");
}

TEST(ConfigJson, ASlipInASetOfRopeIsNotItsDefault) {
  for (const char* set : {"rope_scaling", "rope_parameters"}) {
    const auto slip = [&](const std::string& members) {
      return refusal_with("\"" + std::string(set) + "\": {\"rope_type\": \"yarn\", \"factor\": 4, " + members + "}");
    };
    EXPECT_MENTIONS(slip("\"beta_fats\": 16"),
                    std::string(set) + ".beta_fats: is not a key of config.json; did you mean beta_fast?");
    EXPECT_MENTIONS(slip("\"attention_facter\": 1"), "did you mean attention_factor?");
    EXPECT_MENTIONS(slip("\"original_max_position_embedding\": 128"), "did you mean original_max_position_embeddings?");
    EXPECT_EQ(slip("\"mrope_section\": [2, 3, 3], \"finetuned\": true"), "");
  }
  EXPECT_MENTIONS(refusal_with("\"rope_scaling\": {\"fcator\": 4}"), "did you mean factor?");
}

TEST(ConfigJson, ThetaIsReadInEitherSet) {
  for (const std::string set : {"rope_scaling", "rope_parameters"}) {
    const std::string linear = "\"" + set + "\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 5e5}";
    EXPECT_EQ(read_with(linear).rope_theta, 5e5);
    EXPECT_EQ(read_with(linear + ", \"rope_theta\": 500000").rope_theta, 5e5);
    EXPECT_MENTIONS(refusal_with(linear + ", \"rope_theta\": 1e4"),
                    "rope_theta: 10000 here, but " + set + ".rope_theta is 500000");
  }
}

// --- other models -------------------------------------------------------------------------------------------------

TEST(ConfigJson, RefusalsNameTheNearestFamilyThatWorks) {
  const auto type = [](const std::string& name) { return refusal(replaced(kLlama, "\"llama\"", "\"" + name + "\"")); };
  EXPECT_EQ(
      type("qwen2_moe").substr(type("qwen2_moe").find("model_type")),
      "model_type: \"qwen2_moe\" cannot be read: experts that every token has are not supported; the nearest that "
      "can be read is qwen3_moe");
  for (const auto& [name, nearest] : {std::pair{"gpt_oss", "qwen3_moe"},
                                      {"dbrx", "mixtral"},
                                      {"phi3", "llama"},
                                      {"gemma2", "llama"},
                                      {"gpt2", "llama"},
                                      {"llama4", "llama"},
                                      {"olmo2", "qwen3"},
                                      {"smollm3", "llama"},
                                      {"internlm2", "llama"},
                                      {"deepseek_v3", "llama"},
                                      {"mamba", "llama"},
                                      {"qwen2_5_vl", "qwen2"},
                                      {"Yi", "llama"}})
    EXPECT_MENTIONS(type(name), std::string("the nearest that can be read is ") + nearest);
  EXPECT_MENTIONS(type("qwen2.5"), "did you mean qwen2?");
  EXPECT_MENTIONS(type("llama3"), "did you mean llama?");
  EXPECT_MENTIONS(type("LLaMA"), "did you mean llama?");
  EXPECT_MENTIONS(type("minstral"), "did you mean mistral?");
  EXPECT_MENTIONS(type("something_new"),
                  "known types are llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe, ministral");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"llama\"", "7")), "model_type: expected a text, found 7");
}

TEST(ConfigJson, WhatOtherFamiliesChangeIsNotPassedOver) {
  for (const auto& [member, what] :
       {std::pair{"\"attn_logit_softcapping\": 50.0",
                  "attn_logit_softcapping: 50.0 cannot be read: scores of attention"},
        {"\"final_logit_softcapping\": 30.0", "logits are capped"},
        {"\"num_local_experts\": 8", "num_local_experts: 8 cannot be read: its MLPs are mixtures of experts"},
        {"\"num_experts\": 128", "mixtures of experts"},
        {"\"embedding_multiplier\": 12.0", "embeddings are scaled"},
        {"\"logits_scaling\": 8", "logits are scaled"},
        {"\"attention_multiplier\": 0.0156", "another factor than 1 / sqrt(head_dim)"},
        {"\"query_pre_attn_scalar\": 256", "another factor"},
        {"\"use_qk_norm\": true", "the nearest that can be read is qwen3"},
        {"\"qkv_bias\": true", "the nearest that can be read is qwen2"},
        {"\"clip_qkv\": 8.0", "clipped"},
        {"\"alibi\": true", "ALiBi"},
        {"\"attention_chunk_size\": 8192", "attention ends at chunks"},
        {"\"no_rope_layers\": [1, 1, 0]", "no rotary embedding"},
        {"\"resid_pdrop\": 0.1", "there is no dropout here"}})
    EXPECT_NE(refusal_with(member).find(what), std::string::npos) << member << ": " << refusal_with(member);
  // What changes nothing may stand there.
  EXPECT_EQ(read_with("\"attn_logit_softcapping\": null, \"use_qk_norm\": false, \"num_experts\": 1, "
                      "\"embedding_multiplier\": 1.0, \"attention_multiplier\": 0.25, \"query_pre_attn_scalar\": 16, "
                      "\"resid_pdrop\": 0.0, \"no_rope_layers\": [], \"pretraining_tp\": 1")
                .hidden,
            64);
}

/// Qwen3-Coder-30B-A3B's file says use_qk_norm: true and qkv_bias: false.
TEST(ConfigJson, ASwitchMaySayWhatTheFamilyDoesAnyway) {
  EXPECT_TRUE(
      read(replaced(kQwen3, "\"head_dim\"", "\"use_qk_norm\": true, \"qkv_bias\": false, \"head_dim\"")).qk_norm);
  EXPECT_TRUE(read(family("qwen2", "\"qkv_bias\": true, \"use_qk_norm\": false")).qkv_bias);
  EXPECT_MENTIONS(refusal(replaced(kQwen3, "\"head_dim\"", "\"use_qk_norm\": false, \"head_dim\"")),
                  "use_qk_norm: false cannot be read: a model of this model_type normalises queries and keys");
  EXPECT_MENTIONS(refusal(family("qwen2", "\"qkv_bias\": false")), "qkv_bias: false cannot be read");
  EXPECT_MENTIONS(refusal(family("qwen2", "\"qkv_bias\": 1")), "qkv_bias: 1 cannot be read");
}

TEST(ConfigJson, SaysWhatAFileWithoutAModelTypeIs) {
  EXPECT_MENTIONS(
      refusal(replaced(kLlama, "\"model_type\": \"llama\",", "")),
      "model_type: is missing; expected one of llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe, ministral; "
      "architectures has "
      "\"LlamaForCausalLM\", which is \"model_type\": \"llama\": add it");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "model_type", "modeltype")), "there is modeltype: did you mean model_type?");
  EXPECT_MENTIONS(refusal("{\"dim\": 4096, \"n_layers\": 32, \"n_heads\": 32}"), "params.json");
  EXPECT_MENTIONS(refusal("{\"tokenizer_class\": \"LlamaTokenizer\"}"), "configuration of a tokenizer");
  EXPECT_MENTIONS(refusal("{}"), "is this the config.json of a model?");
  EXPECT_MENTIONS(refusal("{\"model_type\": null}"), "is this the config.json of a model?");
}

TEST(ConfigJson, SaysWhereALargerModelHasItsLanguageModel) {
  EXPECT_MENTIONS(
      refusal("{\"model_type\": \"mistral3\", \"text_config\": " + family("mistral") + "}"),
      "small.json.text_config: is the language model of a larger model (model_type \"mistral\"); write it to "
      "a config.json of its own and give that");
  EXPECT_MENTIONS(refusal("{\"model_type\": \"internvl_chat\", \"llm_config\": " + family("qwen2") + "}"),
                  "llm_config: is the language model");
  EXPECT_MENTIONS(refusal("{\"text_config\": {}}"), "text_config: is the language model of a larger model; write");
}

TEST(ConfigJson, RefusesContradictions) {
  EXPECT_MENTIONS(
      refusal_with("\"rope_theta\": 5, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 6}"),
      "rope_theta");
  EXPECT_MENTIONS(
      refusal_with("\"rope_scaling\": {\"type\": \"default\"}, \"rope_parameters\": {\"type\": \"default\"}"),
      "keep one of the two");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": 66")),
                  "does not divide hidden_size = 66");
}

TEST(ConfigJson, RefusesWrongTypesAndSizes) {
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": \"64\"")),
                  "hidden_size: expected a whole number");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": 64.5")), "found 64.5");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": -64")), "found -64");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"vocab_size\": 256", "\"vocab_size\": 1e30")), "vocab_size");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"vocab_size\": 256,", "")), "vocab_size: is missing");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 3.0")),
                  "num_hidden_layers: expected a whole number from 1 to 4096, found 3.0");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": true")), "found true");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": null")), "found null");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 5000")),
                  "num_hidden_layers: expected a whole number from 1 to 4096, found 5000");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 18446744073709551615")),
                  "num_hidden_layers: expected a whole number");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1e400")), "is not JSON");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": NaN")), "is not JSON");
  EXPECT_MENTIONS(refusal_with("\"rms_norm_eps\": 0"), "rms_norm_eps: expected a number from 1e-12 to 0.1, found 0");
  EXPECT_MENTIONS(refusal_with("\"rms_norm_eps\": \"1e-5\""), "rms_norm_eps: expected a number");
  EXPECT_MENTIONS(refusal_with("\"rope_theta\": -1"), "rope_theta: expected a number");
  EXPECT_MENTIONS(refusal("[1, 2]"), "expected an object");
  EXPECT_MENTIONS(refusal("{\"model_type\": "), "is not JSON");
  EXPECT_MENTIONS(refusal(""), "is not JSON");
}

TEST(ConfigJson, RefusesBottomlessNesting) {
  EXPECT_MENTIONS(refusal(std::string(400'000, '[')), "nests more than 100 deep");
  // Well-formed JSON too, where showing the value found would walk it.
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": " + deep)),
                  "nests more than 100 deep");
  // Brackets within a text are no nesting.
  EXPECT_EQ(read_with("\"note\": \"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"").hidden, 64);
}

TEST(ConfigJson, NamesAMissingFile) {
  try {
    read_model_config("/no/such/model.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "/no/such/model.json: cannot be read: No such file or directory; the folder /no/such does not exist");
  }
}

}  // namespace
}  // namespace penstock
