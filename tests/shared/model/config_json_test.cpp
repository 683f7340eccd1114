#include "shared/model/config_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

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
  EXPECT_EQ(read_with("\"sliding_window\": null").max_positions, 512);
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
  EXPECT_MENTIONS(refusal_with("\"use_sliding_window\": true"), "use_sliding_window");
  EXPECT_MENTIONS(refusal_with("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}"), "found \"yarn\"");
  EXPECT_MENTIONS(refusal_with("\"rope_scaling\": {\"factor\": 4}"), "type: is missing");
  EXPECT_MENTIONS(refusal_with("\"layer_types\": [\"full_attention\", \"sliding_attention\"]"), "sliding_attention");
  EXPECT_MENTIONS(refusal_with("\"attention_dropout\": 0.1"), "attention_dropout: expected 0, found 0.1");
  EXPECT_MENTIONS(refusal_with("\"partial_rotary_factor\": 0.5"), "partial_rotary_factor");
  EXPECT_MENTIONS(refusal_with("\"quantization_config\": {}"), "quantization_config");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "LlamaForCausalLM", "LlamaForTokenClassification")), "architectures");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"llama\"", "\"gemma2\"")), "expected one of llama, qwen2, qwen3, mistral");
}

TEST(ConfigJson, RefusesAMistralWindowShorterThanItsContext) {
  const std::string mistral = replaced(replaced(kLlama, "\"llama\"", "\"mistral\""), "LlamaFor", "MistralFor");
  EXPECT_MENTIONS(refusal(replaced(mistral, "\"bos_token_id\": 1", "\"sliding_window\": 256")), "sliding_window");
  EXPECT_EQ(refusal(replaced(mistral, "\"bos_token_id\": 1", "\"sliding_window\": 512")), "");
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
  EXPECT_MENTIONS(refusal(replaced(kQwen3, "\"head_dim\": 32,", "")), "head_dim: is missing");
}

TEST(ConfigJson, RefusesWrongTypesAndSizes) {
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": \"64\"")),
                  "hidden_size: expected a whole number");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": 64.5")), "found 64.5");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"hidden_size\": 64", "\"hidden_size\": -64")), "found -64");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"vocab_size\": 256", "\"vocab_size\": 1e30")), "vocab_size");
  EXPECT_MENTIONS(refusal(replaced(kLlama, "\"vocab_size\": 256,", "")), "vocab_size: is missing");
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
