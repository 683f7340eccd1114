// What a scenario freezes, by name.
#include "shared/model/frozen_layers.h"

#include <gtest/gtest.h>

#include "shared/model/kernels.h"
#include "tests/shared/error_text.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

std::vector<int> layers(const std::vector<std::string>& names, const Model& model = small::llama()) {
  return frozen_layers(names, model.config);
}
std::string refusal(const std::vector<std::string>& names, const Model& model = small::llama()) {
  return error_text([&] { layers(names, model); });
}

TEST(FrozenLayers, NamesAreThoseOfHuggingFace) {
  EXPECT_EQ(layers({"embed_tokens", "layers.0-1", "layers.4"}), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_EQ(layers({"layers.3", "layers.2-3"}), (std::vector<int>{3, 4}));  // twice is once
  EXPECT_EQ(layers({"norm", "lm_head"}), std::vector<int>{6});
  EXPECT_EQ(layers({"embed_tokens", "norm"}, small::qwen2_tied()), (std::vector<int>{0, 6}));
  EXPECT_EQ(layers({"lm_head", "norm"}, small::qwen2_tied()), (std::vector<int>{0, 6}));  // it is the embedding
}

TEST(FrozenLayers, TextSaysTheSame) {
  for (const Model& model : {small::llama(), small::qwen2_tied()})
    for (const auto& names : small::frozen_sets(model)) {
      const Model frozen = small::frozen(model, names);
      std::vector<std::string> again;
      std::string text = frozen_text(frozen.config) + ", ";
      for (std::size_t at = 0; at < text.size(); at = text.find(", ", at) + 2)
        again.push_back(text.substr(at, text.find(", ", at) - at));
      EXPECT_EQ(layers(again, model), frozen.config.frozen_layers) << text;
    }
  EXPECT_EQ(frozen_text(small::llama().config), "");
  EXPECT_EQ(frozen_text(small::frozen(small::llama(), {"layers.0-2", "layers.4", "embed_tokens"}).config),
            "embed_tokens, layers.0-2, layers.4");
}

TEST(FrozenLayers, WhatCannotBeFrozenIsRefusedByName) {
  EXPECT_MENTIONS(refusal({"layers.5"}), "\"layers.5\": the model has the layers 0 to 4");
  EXPECT_MENTIONS(refusal({"layers.3-2"}), "the model has the layers 0 to 4");
  EXPECT_MENTIONS(refusal({"layers.99999999999999999999"}), "is nothing that can be frozen");
  EXPECT_MENTIONS(refusal({"layers.1.self_attn.q_proj"}), "whole layers can be frozen: \"layers.1\"");
  EXPECT_MENTIONS(refusal({"embed"}), "\"embed\" is nothing that can be frozen; expected \"embed_tokens\"");
  for (const char* name : {"", "layers.", "layers.-1", "layers.1-", "layers.a", "layers.1-2-3", "layers"})
    EXPECT_MENTIONS(refusal({name}), "is nothing that can be frozen") << name;
  EXPECT_MENTIONS(refusal({"norm"}), "freeze \"norm\" and \"lm_head\" together");
  EXPECT_MENTIONS(refusal({"lm_head"}), "freeze \"norm\" and \"lm_head\" together");
  EXPECT_MENTIONS(refusal({"embed_tokens"}, small::qwen2_tied()), "freeze \"embed_tokens\" and \"norm\" together");
  EXPECT_MENTIONS(refusal({"norm"}, small::qwen2_tied()), "freeze \"embed_tokens\" and \"norm\" together");
  EXPECT_MENTIONS(refusal({"embed_tokens", "layers.0-4", "norm", "lm_head"}), "nothing would train");
}

TEST(FrozenLayers, ModelsWithOtherLayersFreezeWhatIsLeft) {
  const Model head = small::frozen(small::llama(), {"layers.3-4", "norm", "lm_head"});
  EXPECT_EQ(with_decoder_layers(head.config, 4).frozen_layers, (std::vector<int>{4, 5}));
  EXPECT_EQ(with_decoder_layers(head.config, 9).frozen_layers, (std::vector<int>{4, 5, 10}));
  const Model low = small::frozen(small::llama(), {"embed_tokens", "layers.0-2", "norm", "lm_head"});
  EXPECT_EQ(with_decoder_layers(low.config, 2).frozen_layers, (std::vector<int>{0, 1, 2}));
  const Model tied = small::frozen(small::qwen2_tied(), {"embed_tokens", "layers.0-2", "norm"});
  EXPECT_EQ(with_decoder_layers(tied.config, 2).frozen_layers, (std::vector<int>{1, 2}));
}

// 5 layers of hidden 64: qkv 64 x 128, projection 64 x 64, MLP 3 x 64 x 128 parameters; head 256 x 64.
TEST(FrozenLayers, ModelFlopsAreOfWhatIsComputed) {
  const BatchShape batch{2, 32};
  const double tokens = 64, qkv = 8192, behind = 4096 + 24576, head = 16384;
  const double attention = attention_spec(small::llama().config, batch, 0).forward_flops();
  const auto flops = [&](const std::vector<std::string>& names) {
    return model_flops(small::frozen(small::llama(), names), batch);
  };
  // Frozen in between: no gradient of its weights.
  const double all = model_flops(small::llama(), batch);
  EXPECT_DOUBLE_EQ(all, 6 * tokens * (5 * (qkv + behind) + head) + 15 * attention);
  EXPECT_DOUBLE_EQ(flops({"layers.2"}), all - 2 * tokens * (qkv + behind));
  // Two below: forward alone; the third needs no gradient of its input.
  EXPECT_DOUBLE_EQ(flops({"embed_tokens", "layers.0-1"}),
                   all - 4 * tokens * 2 * (qkv + behind) - 2 * 2 * attention - 2 * tokens * qkv);
  EXPECT_DOUBLE_EQ(flops({"norm", "lm_head"}), all - 2 * tokens * head);
  EXPECT_DOUBLE_EQ(flops({"embed_tokens", "layers.0-4"}), 2 * tokens * (5 * (qkv + behind) + 2 * head) + 5 * attention);
}

}  // namespace
}  // namespace penstock
