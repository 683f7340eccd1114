// Weights of mixtures of experts: one tensor for each expert and projection, or one for all experts of a layer.
#include "exec/checkpoint/packed_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/state_source.h"
#include "tests/exec/checkpoint/published_files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// Two layers, of which the first is dense in Qwen3-MoE; 3 experts of 12.
Model experts(ModelFamily family) {
  ModelConfig config = published_config("experts");
  config.family = family;
  config.qk_norm = family == ModelFamily::qwen3_moe;
  config.experts = {.count = 3, .per_token = 2, .intermediate = 12, .dense_layers = {}};
  if (family == ModelFamily::qwen3_moe) config.experts.dense_layers = {0};
  return make_model(config);
}

std::string without_number(const std::string& name) {
  const std::size_t at = name.find(".experts.") + 9;
  return name.substr(at + name.substr(at).find('.'));
}

/// The model's tensors with the experts of each layer as one, as transformers 5 names them.
PublishedTensors packed(const Model& model) {
  PublishedTensors result;
  std::map<std::string, std::vector<float>> together;
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      const std::vector<float> values = some_values(tensor.name, tensor.elements());
      if (tensor.name.find(".experts.") == std::string::npos) {
        std::string name = tensor.name;
        if (const std::size_t at = name.find("block_sparse_moe"); at != std::string::npos) name.replace(at, 16, "mlp");
        result[name] = f32_tensor(stored_shape(tensor), values);
        continue;
      }
      const std::string part = without_number(tensor.name);
      const bool is_down = part == ".down_proj.weight" || part == ".w2.weight";
      std::vector<float>& all = together["model.layers." + std::to_string(layer.index - 1) + ".mlp.experts." +
                                         (is_down ? "down_proj" : "gate_up_proj")];
      all.insert(all.end(), values.begin(), values.end());
    }
  for (const auto& [name, values] : together) {
    const bool is_down = name.ends_with("down_proj");
    result[name] =
        f32_tensor(is_down ? std::vector<std::int64_t>{3, 16, 12} : std::vector<std::int64_t>{3, 24, 16}, values);
  }
  return result;
}

std::string error_of(const Model& model, const PublishedTensors& tensors) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", safetensors_text(tensors));
  return error_text([&] { published_states(path, model); });
}

class Families : public testing::TestWithParam<ModelFamily> {};

TEST_P(Families, AreReadFromTensorsOfEachExpertAndOfAll) {
  const Model model = experts(GetParam());
  for (const PublishedTensors& tensors : {published_tensors(model), packed(model)}) {
    const TemporaryFolder folder;
    const auto path = folder.write("model.safetensors", safetensors_text(tensors));
    const auto source = published_states(path, model);
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        std::vector<float> values(static_cast<std::size_t>(tensor.elements()) - 1);
        source->read(tensor, StatePart::master, 1, values);
        std::vector<float> expected = some_values(tensor.name, tensor.elements());
        expected.erase(expected.begin());
        ASSERT_EQ(values, expected) << tensor.name;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Experts, Families, testing::Values(ModelFamily::qwen3_moe, ModelFamily::mixtral),
                         [](const auto& param) {
                           return std::string(model_family_names()[static_cast<std::size_t>(param.param)]);
                         });

// Expert 2's up, row 3, column 5: behind its gate's 12 rows.
TEST(PackedExperts, AnElementIsNamedWhereItIsStored) {
  const Model model = experts(ModelFamily::qwen3_moe);
  const TemporaryFolder folder;
  const Layer& layer = model.layers[2];
  const auto up = std::find_if(layer.tensors.begin(), layer.tensors.end(), [](const ParameterTensor& tensor) {
    return tensor.name == "model.layers.1.mlp.experts.2.up_proj.weight";
  });
  ASSERT_NE(up, layer.tensors.end());
  const auto place = [&](const PublishedTensors& tensors) {
    const auto path = folder.write("model.safetensors", safetensors_text(tensors));
    return published_states(path, model)->place(*up, StatePart::master, 3 * 16 + 5);
  };
  EXPECT_MENTIONS(place(packed(model)), "model.safetensors: model.layers.1.mlp.experts.gate_up_proj[2, 15, 5]");
  EXPECT_MENTIONS(place(published_tensors(model)),
                  "model.safetensors: model.layers.1.mlp.experts.2.up_proj.weight[3, 5]");
}

TEST(PackedExperts, WhatIsMissingOrTooMuchIsRefused) {
  const Model model = experts(ModelFamily::qwen3_moe);
  PublishedTensors tensors = published_tensors(model);
  tensors.erase("model.layers.1.mlp.experts.2.down_proj.weight");
  EXPECT_MENTIONS(error_of(model, tensors), "the weights lack experts that config.json speaks of");
  tensors = published_tensors(model);
  tensors.erase("model.layers.1.mlp.gate.weight");
  EXPECT_MENTIONS(error_of(model, tensors), "the weights lack experts that config.json speaks of");
  EXPECT_MENTIONS(error_of(model, published_tensors(experts(ModelFamily::mixtral))),
                  "models of model_type \"mixtral\" have experts of these names");
  tensors = published_tensors(model);
  tensors["model.layers.1.mlp.experts.3.down_proj.weight"] = zeros("F32", {16, 12}, 4);
  EXPECT_MENTIONS(error_of(model, tensors), "experts of a layer: 4 in the weights, 3 by config.json (num_experts)");
  tensors = published_tensors(model);
  tensors["model.layers.0.mlp.experts.0.down_proj.weight"] = zeros("F32", {16, 12}, 4);
  EXPECT_MENTIONS(error_of(model, tensors), "these layers are dense by config.json");
  tensors = published_tensors(model);
  tensors["model.layers.1.mlp.experts.down_proj"] = zeros("F32", {3, 16, 12}, 4);
  EXPECT_MENTIONS(error_of(model, tensors), "stand there twice, as one tensor and one by one; keep one of the two");
  tensors = packed(model);
  tensors["model.layers.1.mlp.experts.down_proj"] = zeros("F32", {4, 16, 12}, 4);
  EXPECT_MENTIONS(error_of(model, tensors), "has shape [4, 16, 12], experts needs [3, 16, 12]");
  tensors = published_tensors(model);
  tensors["model.layers.1.mlp.gate.weight"] = zeros("F32", {4, 16}, 4);
  EXPECT_MENTIONS(error_of(model, tensors), "num_experts = 4 in config.json would fit, not 3");
}

}  // namespace
}  // namespace penstock::exec
