// Weights that are the model's, and weights that are almost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "shared/model/rotary_frequencies.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

Model llama() { return make_model(published_config()); }

Model tied() {
  ModelConfig config = published_config("tied");
  config.tied_embeddings = true;
  return make_model(config);
}

Model qwen2() {
  ModelConfig config = published_config("qwen2");
  config.family = ModelFamily::qwen2;
  config.qkv_bias = true;
  return make_model(config);
}

Model qwen3() {
  ModelConfig config = published_config("qwen3");
  config.family = ModelFamily::qwen3;
  config.qk_norm = true;
  return make_model(config);
}

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kLayer0 = "model.layers.0.";

std::string error_of(const Model& model, const PublishedTensors& tensors) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", safetensors_text(tensors));
  const std::string error = error_text([&] { published_states(path, model); });
  EXPECT_TRUE(error.empty() || error.starts_with(path.string())) << error;
  return error;
}

/// What is said of the model's own tensors after `change`.
std::string error_after(const Model& model, const std::function<void(PublishedTensors&)>& change) {
  PublishedTensors tensors = published_tensors(model);
  change(tensors);
  return error_of(model, tensors);
}

std::string error_with(const Model& model, const PublishedTensors& more) {
  return error_after(model, [&](PublishedTensors& tensors) { tensors.insert(more.begin(), more.end()); });
}

std::string error_without(const Model& model, const std::string& part) {
  return error_after(model, [&](PublishedTensors& tensors) {
    std::erase_if(tensors, [&](const auto& entry) { return entry.first.find(part) != std::string::npos; });
  });
}

std::string error_reshaped(const Model& model, const std::string& name, const std::vector<std::int64_t>& shape) {
  return error_after(model, [&](PublishedTensors& tensors) { tensors.at(name) = zeros("F32", shape, 4); });
}

std::vector<float> read_all(const StateSource& source, const ParameterTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  source.read(tensor, StatePart::master, 0, values);
  return values;
}

TEST(PublishedStates, AreReadAsTheyStand) {
  for (const Model& model : {llama(), tied(), qwen2(), qwen3()}) {
    const TemporaryFolder folder;
    PublishedTensors tensors = published_tensors(model);
    const ParameterTensor& gate = model.layers[1].tensors[6];
    tensors[gate.name] = bf16_tensor(stored_shape(gate), some_values(gate.name, gate.elements()));
    const auto source = published_states(folder.write("model.safetensors", safetensors_text(tensors)), model);
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors)
        EXPECT_EQ(read_all(*source, tensor), some_values(tensor.name, tensor.elements())) << tensor.name;
    std::vector<float> moments(4, 7);
    source->read(gate, StatePart::moment_v, 0, moments);
    EXPECT_EQ(moments, std::vector<float>(4, 0));
    EXPECT_EQ(source->describe(), (folder.path() / "model.safetensors").string());
    EXPECT_EQ(source->place(gate, StatePart::master, 0),
              source->describe() + ": " + gate.name + element_text(stored_shape(gate), 0));
  }
}

TEST(PublishedStates, ShapesAreRankAndSizes) {
  const std::string gate = std::string(kLayer0) + "mlp.gate_proj.weight";
  const std::string norm = std::string(kLayer0) + "input_layernorm.weight";
  EXPECT_MENTIONS(error_reshaped(llama(), gate, {16, 40}),
                  ": model.layers.0.mlp.gate_proj.weight has shape [16, 40], my-model needs [40, 16]; rows and columns "
                  "are exchanged");
  EXPECT_MENTIONS(error_reshaped(llama(), kEmbedding, {16, 32}), "has shape [16, 32], my-model needs [32, 16]");
  EXPECT_MENTIONS(error_reshaped(llama(), gate, {640}), "has shape [640], my-model needs [40, 16]; the number of");
  EXPECT_MENTIONS(error_reshaped(llama(), gate, {1, 40, 16}), "has shape [1, 40, 16]");
  EXPECT_MENTIONS(error_reshaped(llama(), gate, {20, 32}), "has shape [20, 32]");  // as many elements
  EXPECT_MENTIONS(error_reshaped(llama(), norm, {1, 16}), "has shape [1, 16], my-model needs [16]");
  EXPECT_MENTIONS(error_reshaped(llama(), norm, {16, 1}), "has shape [16, 1], my-model needs [16]");
  EXPECT_MENTIONS(error_reshaped(llama(), norm, {}), "has shape [], my-model needs [16]");
  EXPECT_MENTIONS(error_after(llama(),
                              [](PublishedTensors& tensors) {
                                for (auto& [name, tensor] : tensors)
                                  if (tensor.shape.size() == 2) std::swap(tensor.shape[0], tensor.shape[1]);
                              }),
                  "(others that differ: 11)");  // of 16: those of 16 x 16 look the same
}

TEST(PublishedStates, AnotherSizeIsTracedToTheKeyOfTheConfig) {
  EXPECT_MENTIONS(error_reshaped(llama(), kEmbedding, {40, 16}), "vocab_size = 40 in config.json would fit, not 32");
  EXPECT_MENTIONS(error_reshaped(llama(), kHead, {24, 16}), "vocab_size = 24 in config.json would fit, not 32");
  EXPECT_MENTIONS(error_reshaped(llama(), kEmbedding, {32, 24}), "hidden_size = 24 in config.json would fit, not 16");
  EXPECT_MENTIONS(error_reshaped(llama(), std::string(kLayer0) + "mlp.up_proj.weight", {48, 16}),
                  "intermediate_size = 48 in config.json would fit, not 40");
  EXPECT_MENTIONS(error_reshaped(llama(), std::string(kLayer0) + "mlp.down_proj.weight", {16, 48}),
                  "intermediate_size = 48 in config.json would fit, not 40");
  EXPECT_MENTIONS(error_reshaped(llama(), std::string(kLayer0) + "self_attn.k_proj.weight", {16, 16}),
                  "num_key_value_heads = 2 in config.json would fit, not 1 (with head_dim = 8)");
  EXPECT_MENTIONS(error_reshaped(llama(), std::string(kLayer0) + "self_attn.q_proj.weight", {32, 16}),
                  "num_attention_heads = 4 in config.json would fit, not 2 (with head_dim = 8)");
  EXPECT_MENTIONS(error_reshaped(llama(), std::string(kLayer0) + "self_attn.v_proj.weight", {12, 16}),
                  "num_key_value_heads x head_dim of config.json would have to be 12, not 8");
  EXPECT_MENTIONS(error_reshaped(qwen2(), std::string(kLayer0) + "self_attn.q_proj.bias", {32}),
                  "num_attention_heads = 4 in config.json would fit, not 2 (with head_dim = 8)");
  // A norm over the whole of q, as OLMo 2 has it.
  EXPECT_MENTIONS(error_reshaped(qwen3(), std::string(kLayer0) + "self_attn.q_norm.weight", {16}),
                  "head_dim = 16 in config.json would fit, not 8");
}

TEST(PublishedStates, TensorsThatTheModelWouldNotUseAreRefusedByName) {
  const PublishedTensor some = f32_tensor({1}, {0});
  const struct {
    Model model;
    std::vector<std::string> names;
    const char* says;
  } cases[] = {
      {llama(),
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.v_proj.bias"},
       "tensors my-model (llama) would not use 2: model.layers.0.self_attn.q_proj.bias, "
       "model.layers.0.self_attn.v_proj.bias; models of model_type \"qwen2\" have q, k, v biases"},
      {qwen3(),
       {"model.layers.1.self_attn.k_proj.bias"},
       "qwen3 (qwen3) would not use 1: model.layers.1.self_attn.k_proj.bias"},
      {qwen2(), {"model.layers.1.self_attn.o_proj.bias"}, "biases of the output projection (attention_bias = true)"},
      {llama(),
       {"model.layers.1.self_attn.q_proj.bias", "model.layers.1.self_attn.o_proj.bias"},
       "biases of the output projection (attention_bias = true)"},
      {llama(), {"model.layers.0.mlp.down_proj.bias"}, "biases of the MLP (mlp_bias = true)"},
      {llama(), {"model.layers.0.self_attn.q_norm.weight"}, "models of model_type \"qwen3\" have QK norms"},
      {qwen2(), {"model.layers.0.self_attn.k_norm.weight"}, "the scenario's is \"qwen2\""},
      {llama(),
       {"model.layers.2.input_layernorm.weight"},
       "decoder layers: 3 in the weights, 2 in the scenario's model"},
      {llama(), {"model.layers.0.mlp.experts.7.up_proj.weight"}, "mixture of experts"},
      {llama(), {"model.layers.0.mlp.gate.weight"}, "mixture of experts"},
      {llama(), {"visual.blocks.0.attn.qkv.weight"}, "more than text"},
      {llama(), {"model.vision_tower.patch_embed.weight"}, "more than text"},
      {llama(), {"model.layers.0.pre_feedforward_layernorm.weight"}, "norms stand in other places"},
      {llama(), {"model.layers.0.self_attn.q_proj.lora_A.weight"}, "adapter (LoRA)"},
      {llama(), {"model.layers.0.mlp.up_proj.weight_scale_inv"}, "quantised weights"},
      {llama(), {"score.weight"}, "a classifier or a reward model"},
      {llama(), {"model.layers.0.self_attn.sinks"}, "another architecture"},
      {llama(), {"lm_head.bias"}, "of another model; take the config.json that belongs to the weights"},
      {llama(), {"norm.weight"}, ": norm.weight"},
      {llama(), {"model.embed_tokens.weights"}, ": model.embed_tokens.weights"},
      {llama(), {"model.layers.0.self_attn.rotary_emb.cos_cached"}, ": model.layers.0.self_attn.rotary"},
      {llama(), {"model.norm.weight\x1b[2J"}, ": model.norm.weight?[2J"},  // a terminal's command
  };
  for (const auto& [model, names, says] : cases) {
    PublishedTensors more;
    for (const std::string& name : names) more[name] = some;
    EXPECT_MENTIONS(error_with(model, more), says);
  }
  PublishedTensors many;
  for (int i = 0; i < 12; ++i) many[fmt::format("x.{:02}", i)] = some;
  EXPECT_MENTIONS(error_with(llama(), many), "tensors my-model (llama) would not use 12: x.00, x.01, x.02 and 9 more");
}

TEST(PublishedStates, WhatIsMissingIsNamedAndTracedToItsCause) {
  EXPECT_MENTIONS(error_without(llama(), kHead),
                  "the weights lack 1 of the 21 tensors that my-model needs: lm_head.weight; without it this is no "
                  "language model's head: if the embedding serves as the head, tie_word_embeddings = true");
  EXPECT_EQ(error_without(tied(), kHead), "");
  EXPECT_MENTIONS(error_without(llama(), "layers.1."),
                  "lack 9 of the 21 tensors that my-model needs: model.layers.1.input_layernorm.weight, "
                  "model.layers.1.self_attn.q_proj.weight, model.layers.1.self_attn.k_proj.weight and 6 more; "
                  "decoder layers: 1 in the weights, 2 in the scenario's model");
  EXPECT_MENTIONS(error_without(qwen2(), ".bias"), "model_type \"qwen2\" has q, k, v biases, these weights have none");
  EXPECT_MENTIONS(error_without(qwen3(), "k_norm"), "model_type \"qwen3\" has QK norms, these weights have none");
  EXPECT_MENTIONS(error_without(llama(), "model.norm"),
                  "lack 1 of the 21 tensors that my-model needs: model.norm.weight");
  EXPECT_MENTIONS(error_without(llama(), "mlp.up_proj"), "of another model, or were not downloaded whole");
  EXPECT_MENTIONS(error_of(llama(), {}), "lack 21 of the 21");
}

TEST(PublishedStates, NamesOfOtherProgramsAreRecognised) {
  const auto error = [](const auto& rename) { return error_of(llama(), renamed(published_tensors(llama()), rename)); };
  const auto prefixed = [&](const std::string& prefix) {
    return error([&](const std::string& name) { return prefix + name; });
  };
  EXPECT_MENTIONS(prefixed("language_model."),
                  "the names begin with \"language_model.model.\" where \"model.\" is expected; they are of a model of "
                  "more than text");
  EXPECT_MENTIONS(error([](const std::string& name) {
                    return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
                  }),
                  "begin with \"model.language_model.\"");
  EXPECT_MENTIONS(prefixed("base_model.model."), "from within peft");
  EXPECT_MENTIONS(prefixed("module."), "from within a wrapper");
  EXPECT_MENTIONS(prefixed("_orig_mod."), "from within a wrapper");
  EXPECT_MENTIONS(error([](const std::string& name) {
                    return name.starts_with("model.") ? "transformer." + name.substr(6) : name;
                  }),
                  "begin with \"transformer.\"");
  EXPECT_MENTIONS(error_of(llama(), {{"transformer.h.0.attn.c_attn.weight", f32_tensor({1}, {0})}}),
                  "another architecture; llama, qwen2, qwen3, mistral, mixtral, qwen3_moe and olmoe are supported");
  EXPECT_MENTIONS(
      error_of(llama(), {{"tok_embeddings.weight", f32_tensor({1}, {0})}, {"norm.weight", f32_tensor({1}, {0})}}),
      "needs: model.embed_tokens.weight, model.layers.0.input_layernorm.weight, "
      "model.layers.0.self_attn.q_proj.weight and 18 more; these are the publisher's own names");
  EXPECT_MENTIONS(
      error_of(llama(), {{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", f32_tensor({1}, {0})}}),
      "adapter (LoRA)");
  EXPECT_MENTIONS(error([](const std::string& name) {
                    return name.ends_with("proj.weight") ? name.substr(0, name.size() - 6) + "qweight" : name;
                  }),
                  "quantised weights");
  EXPECT_MENTIONS(error_after(llama(),
                              [](PublishedTensors& tensors) {
                                for (const char* part : {"q_proj", "k_proj", "v_proj"})
                                  tensors.erase(fmt::format("model.layers.0.self_attn.{}.weight", part));
                                tensors["model.layers.0.self_attn.qkv_proj.weight"] = f32_tensor({1}, {0});
                              }),
                  "q, k, v or gate, up are stored as one");
}

// As AutoModel saves them; the head of an untied model stands beside.
TEST(PublishedStates, NamesOfABaseModelAreRead) {
  for (const Model& model : {llama(), tied()}) {
    const TemporaryFolder folder;
    const auto path = folder.write("model.safetensors",
                                   safetensors_text(renamed(published_tensors(model), [](const std::string& name) {
                                     return name.starts_with("model.") ? name.substr(6) : name;
                                   })));
    const auto source = published_states(path, model);
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors)
        EXPECT_EQ(read_all(*source, tensor), some_values(tensor.name, tensor.elements())) << tensor.name;
    EXPECT_MENTIONS(source->describe(), "its names lack \"model.\"");
    EXPECT_EQ(source->place(model.layers[0].tensors[0], StatePart::master, 0),
              path.string() + ": embed_tokens.weight[0, 0]");
  }
  // Some with and some without: the file is broken.
  EXPECT_MENTIONS(error_after(llama(),
                              [](PublishedTensors& tensors) {
                                tensors["norm.weight"] = tensors.at("model.norm.weight");
                                tensors.erase("model.norm.weight");
                              }),
                  "my-model needs: model.norm.weight");
  // The untied head is missing from a base model.
  PublishedTensors base = renamed(published_tensors(tied()), [](const std::string& name) { return name.substr(6); });
  EXPECT_MENTIONS(error_of(llama(), base), "needs: lm_head.weight; without it this is no language model's head");
}

TEST(PublishedStates, DtypesThatCannotBeReadAreNamed) {
  const auto error = [](const std::string& dtype, std::int64_t bytes) {
    return error_after(llama(), [&](PublishedTensors& tensors) {
      for (auto& [name, tensor] : tensors)
        if (name.ends_with("proj.weight")) tensor = zeros(dtype, tensor.shape, bytes);
    });
  };
  EXPECT_MENTIONS(
      error("F64", 8),
      ": model.layers.0.self_attn.q_proj.weight is stored as F64 (13 more in this or another that cannot be read); "
      "my-model needs F32, BF16 or F16: save them");
  EXPECT_MENTIONS(error("F64", 8), "model.to(torch.float32).save_pretrained(FOLDER)");
  for (const char* dtype : {"I8", "U8", "F8_E4M3", "F8_E5M2", "BOOL"})
    EXPECT_MENTIONS(error(dtype, 1), "quantised weights, which cannot be trained") << dtype;
  EXPECT_MENTIONS(error("I32", 4), "is stored as I32");
}

TEST(PublishedStates, AHeadBesideATiedEmbeddingMustBeItsCopy) {
  const Model model = tied();
  const PublishedTensors tensors = published_tensors(model);
  const PublishedTensor& embedding = tensors.at(kEmbedding);
  EXPECT_EQ(error_with(model, {{kHead, embedding}}), "");
  // In another dtype, which holds these values as exactly.
  EXPECT_EQ(error_with(model, {{kHead, bf16_tensor({32, 16}, some_values(kEmbedding, 512))}}), "");
  std::vector<float> values = some_values(kEmbedding, 512);
  values[3 * 16 + 5] += 0.5f;
  values[400] = 3;
  EXPECT_MENTIONS(error_with(model, {{kHead, f32_tensor({32, 16}, values)}}),
                  "lm_head.weight differs from model.embed_tokens.weight at [3, 5]");
  EXPECT_MENTIONS(error_with(model, {{kHead, f32_tensor({32, 16}, values)}}),
                  "tie_word_embeddings = false there uses both");
  EXPECT_MENTIONS(error_with(model, {{kHead, zeros("F32", {40, 16}, 4)}}),
                  "lm_head.weight is F32 [40, 16], the embedding F32 [32, 16]");
  EXPECT_MENTIONS(error_with(model, {{kHead, zeros("F64", {32, 16}, 8)}}), "lm_head.weight is F64 [32, 16]");
  const TemporaryFolder folder;
  PublishedTensors both = tensors;
  both[kHead] = embedding;
  EXPECT_MENTIONS(published_states(folder.write("model.safetensors", safetensors_text(both)), model)->describe(),
                  "lm_head.weight is equal to the embedding");
}

TEST(PublishedStates, RotaryTablesMustFollowFromTheConfig) {
  const Model model = llama();
  std::vector<float> table;
  for (const double frequency : rotary_frequencies(model.config, 1)) table.push_back(static_cast<float>(frequency));
  const auto with = [&](const PublishedTensor& tensor) {
    return error_with(model, {{"model.layers.0.self_attn.rotary_emb.inv_freq", tensor},
                              {"model.layers.1.self_attn.rotary_emb.inv_freq", tensor}});
  };
  EXPECT_EQ(with(f32_tensor({4}, table)), "");
  EXPECT_EQ(with(bf16_tensor({4}, table)), "");
  EXPECT_EQ(error_with(model, {{"model.rotary_emb.inv_freq", f32_tensor({4}, table)}}), "");
  ModelConfig longer = model.config;
  longer.rope_theta = 500000;
  std::vector<float> other;
  for (const double frequency : rotary_frequencies(longer, 1)) other.push_back(static_cast<float>(frequency));
  // 10000^(-1/4) = 0.1; 500000^(-1/4) = 0.0376.
  EXPECT_MENTIONS(with(f32_tensor({4}, other)), "rotary_emb.inv_freq[1] is 0.0376");
  EXPECT_MENTIONS(with(f32_tensor({4}, other)), "by config.json it is 0.1 (rope_theta, rope_scaling)");
  std::vector<float> halved = table;
  for (float& frequency : halved) frequency /= 2;  // linear scaling
  EXPECT_MENTIONS(with(f32_tensor({4}, halved)), "[0] is 0.5, by config.json it is 1");
  EXPECT_MENTIONS(with(f32_tensor({8}, std::vector<float>(8))), "is F32 [8], but config.json (head_dim) makes it [4]");
  EXPECT_MENTIONS(with(f32_tensor({4}, {1, NAN, 0, 0})), "[1] is nan");
}

TEST(PublishedStates, TensorsOutsideTheIndexAreNeitherReadNorPassedOver) {
  const Model model = llama();
  const TemporaryFolder folder;
  PublishedTensors tensors = published_tensors(model);
  folder.write("a.safetensors", safetensors_text(tensors));
  const auto error = [&](const auto& leave_out) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& [name, tensor] : tensors)
      if (!leave_out(name)) map[name] = "a.safetensors";
    folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    return error_text([&] { published_states(folder.path(), model); });
  };
  EXPECT_EQ(error([](const std::string&) { return false; }), "");
  EXPECT_MENTIONS(
      error([](const std::string& name) { return name == kHead; }),
      "a.safetensors has lm_head.weight, which the index does not list; take index and files of one download");
  tensors["model.layers.0.self_attn.q_proj.bias"] = f32_tensor({16}, std::vector<float>(16));
  folder.write("a.safetensors", safetensors_text(tensors));
  EXPECT_MENTIONS(error([](const std::string& name) { return name.ends_with("bias"); }),
                  ": model.layers.0.self_attn.q_proj.bias; the index does not list them");
  EXPECT_MENTIONS(error([](const std::string&) { return false; }), "\"qwen2\" have q, k, v biases");
}

TEST(PublishedStates, OneOfSeveralFilesIsNoModel) {
  const Model model = llama();
  const TemporaryFolder folder;
  const PublishedTensors tensors = published_tensors(model);
  PublishedTensors first, second;
  nlohmann::json map;
  for (const auto& [name, tensor] : tensors) {
    (name < "model.layers.1" ? first : second)[name] = tensor;
    map[name] = name < "model.layers.1" ? "model-1.safetensors" : "model-2.safetensors";
  }
  const auto one = folder.write("model-1.safetensors", safetensors_text(first));
  folder.write("model-2.safetensors", safetensors_text(second));
  EXPECT_MENTIONS(error_text([&] { published_states(one, model); }), "or were not downloaded whole");
  const auto index = folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  EXPECT_MENTIONS(error_text([&] { published_states(one, model); }),
                  "this is one of several files; name the index of all, " + index.string());
  EXPECT_EQ(error_text([&] { published_states(folder.path(), model); }), "");
  // An index beside that does not know better says nothing.
  map["lm_head.weight"] = "model.safetensors";
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  PublishedTensors headless = tensors;
  headless.erase("lm_head.weight");
  folder.write("model.safetensors", safetensors_text(headless));
  EXPECT_MENTIONS(error_text([&] { published_states(folder.path(), model); }), "no language model's head");
}

}  // namespace
}  // namespace penstock::exec
