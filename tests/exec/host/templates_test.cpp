// The bf16 templates as the executor calls them: near the same model in double, and the same bits however they are
// bound.
#include "exec/host/templates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include "exec/host/scratch.h"
#include "exec/optimizer/norm.h"
#include "exec/runtime/run_memory.h"
#include "shared/error.h"
#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

constexpr BatchShape kBatch{2, 37};                           // 74 tokens
const Chunking kChunks{.mlp_tokens = 20, .loss_tokens = 31};  // neither divides 74

struct NamedConfig {
  const char* name;
  ModelConfig config;
};
void PrintTo(const NamedConfig& named, std::ostream* out) { *out << named.name; }

class Templates : public testing::TestWithParam<NamedConfig> {
 protected:
  const Model model_ = make_model(GetParam().config);
  const std::vector<std::vector<double>> weights_ = tiny_weights(model_);
  const std::vector<std::int32_t> tokens_ = tiny_tokens(model_, kBatch);

  TemplateResult run(const TemplateRun& options, std::size_t micro_batches = 1) const {
    std::vector<TinyRows> all(micro_batches, tokens_);
    for (std::size_t m = 1; m < all.size(); ++m)
      std::rotate(all[m].tokens.begin(), all[m].tokens.begin() + static_cast<long>(m), all[m].tokens.end());
    return run_templates(model_, kBatch, weights_, all, options);
  }
};

void expect_same_bits(const TemplateResult& a, const TemplateResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.boundary, b.boundary);
  EXPECT_EQ(a.input_gradient, b.input_gradient);
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b, std::int64_t begin,
                         std::int64_t count) {
  double distance = 0, length = 0;
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(begin + count); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    length += b[i] * b[i];
  }
  return std::sqrt(distance / length);
}

/// Rounding to bf16 has a relative error of up to 2^-9 = 0.2 %, each tensor on the way through two layers and back adds
/// its own; a wrong formula is off by the order of 1. A token whose logits are nearly equal takes another expert, so that
/// experts that see a dozen tokens have other gradients: layers of theirs are compared as a whole.
TEST_P(Templates, AgreesWithTheModelInDouble) {
  const WholeRun exact = run_in_double(model_, kBatch, kChunks, weights_, tokens_, 1.0, false);
  const TemplateResult result = run({.keep = Keep::input, .chunking = kChunks});
  const bool mixture = model_.has(LayerKind::experts);
  EXPECT_NEAR(result.losses[0] / exact.loss, 1.0, 2e-3);
  for (const Layer& layer : model_.layers) {
    const auto index = static_cast<std::size_t>(layer.index);
    const std::vector<double> gradient = widened_gradient(result.gradients[index], ElementType::fp32);
    if (mixture) {
      EXPECT_LT(relative_distance(gradient, exact.gradients[index], 0, layer.gradient_elements), 0.3) << layer.index;
      continue;
    }
    for (const ParameterTensor& tensor : layer.tensors)
      EXPECT_LT(relative_distance(gradient, exact.gradients[index], tensor.offset, tensor.elements()), 0.03)
          << tensor.name;
  }
}

/// A model whose copies in fp32 are far larger than the fixed part of what is counted.
TEST(TemplateScratch, IsNoMoreThanIsCounted) {
  ModelConfig config = tiny_llama();
  config.hidden = 320;
  config.intermediate = 1500;
  config.vocabulary = 20'000;
  config.decoder_layers = 1;
  const Model model = make_model(config);
  const auto weights = tiny_weights(model);
  const auto tokens = tiny_tokens(model, kBatch);
  for (const Chunking& chunking : {Chunking{}, kChunks}) {
    std::int64_t held = 0;
    std::jthread([&] {  // a stack of its own
      run_templates(model, kBatch, weights, {tokens}, {.keep = Keep::input, .chunking = chunking});
      held = ScratchScope::held_bytes();
    })
        .join();
    const std::int64_t counted = host_kernel_bytes(model, kBatch, chunking);
    EXPECT_LE(held, counted);
    EXPECT_GT(held, counted / 2);  // nor is much more counted than is needed
  }
}

TEST_P(Templates, KeepLevelsGiveTheSameBits) {
  for (const Chunking& chunking : {Chunking{}, kChunks}) {
    const TemplateResult everything = run({.keep = Keep::everything, .chunking = chunking});
    for (const Keep keep : kKeeps) expect_same_bits(run({.keep = keep, .chunking = chunking}), everything);
  }
}

/// run_templates throws if the recomputed output differs from forward's.
TEST_P(Templates, RecomputingTheOutputGivesTheBitsOfTheFirstPass) {
  for (const Keep keep : kKeeps)
    for (const Chunking& chunking : {Chunking{}, kChunks}) {
      const TemplateResult plain = run({.keep = keep, .chunking = chunking});
      expect_same_bits(run({.keep = keep, .chunking = chunking, .block_recompute = true}), plain);
    }
}

TEST_P(Templates, BitsDoNotDependOnAddresses) {
  const TemplateRun aligned{.keep = Keep::input_attention, .chunking = kChunks};
  const TemplateResult expected = run(aligned);
  for (const std::size_t shift : {4, 8, 12, 20, 36, 60}) {
    TemplateRun shifted = aligned;
    shifted.shift_bytes = shift;
    expect_same_bits(run(shifted), expected);
  }
}

/// Parts written apart and summed by accumulate_host are what accumulating in place gives.
TEST_P(Templates, AccumulatingInPlaceIsSummingPartsOnTheHost) {
  for (const ElementType type : {ElementType::fp32, ElementType::bf16}) {
    const TemplateResult together = run({.chunking = kChunks, .gradient_type = type}, 3);
    std::vector<std::vector<std::byte>> sums;
    for (int m = 0; m < 3; ++m) {
      std::vector<std::int32_t> tokens = tokens_;
      std::rotate(tokens.begin(), tokens.begin() + m, tokens.end());
      const TemplateResult part = run_templates(model_, kBatch, weights_, {tokens}, {.chunking = kChunks});
      for (std::size_t layer = 0; layer < part.gradients.size(); ++layer) {
        const std::int64_t elements = model_.layers[layer].gradient_elements;
        if (m == 0) sums.emplace_back(static_cast<std::size_t>(elements * element_bytes(type)));
        accumulate_host(part.gradients[layer].data(), ElementType::fp32, sums[layer].data(), type, m == 0, elements, 1);
      }
    }
    EXPECT_EQ(together.gradients, sums);
  }
}

/// Buffers start as NaN patterns: what is not NaN afterwards was written.
TEST_P(Templates, PaddingOfGradientsIsZero) {
  const TemplateResult result = run({.chunking = kChunks});
  for (const Layer& layer : model_.layers) {
    const std::vector<double> gradient =
        widened_gradient(result.gradients[static_cast<std::size_t>(layer.index)], ElementType::fp32);
    std::vector<bool> used(gradient.size(), false);
    const auto use = [&used](std::int64_t begin, std::int64_t count) {
      std::fill_n(used.begin() + begin, count, true);
    };
    for (const ParameterTensor& tensor : layer.tensors) use(tensor.offset, tensor.elements());
    if (layer.kind == LayerKind::head) use(model_.head.projection, model_.config.vocabulary * model_.config.hidden);
    std::int64_t padding = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_TRUE(std::isfinite(gradient[i])) << "layer " << layer.index << " element " << i;
      if (used[i]) continue;
      ASSERT_EQ(gradient[i], 0.0) << "layer " << layer.index << " element " << i;
      ++padding;
    }
    EXPECT_GT(padding, 0) << "layer " << layer.index;  // sizes are odd: there is some
  }
}

/// Gradients scale with loss_scale, the loss does not; a power of two scales exactly.
TEST_P(Templates, LossScaleScalesGradientsOnly) {
  const TemplateResult plain = run({.loss_scale = 1.0});
  const TemplateResult scaled = run({.loss_scale = 0.25});
  EXPECT_EQ(plain.losses, scaled.losses);
  for (std::size_t layer = 0; layer < plain.gradients.size(); ++layer) {
    const std::vector<double> a = widened_gradient(plain.gradients[layer], ElementType::fp32);
    const std::vector<double> b = widened_gradient(scaled.gradients[layer], ElementType::fp32);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(0.25 * a[i], b[i]);
  }
}

TEST_P(Templates, NanInTheWeightsReachesTheLoss) {
  auto weights = weights_;
  // An expert's matrix reaches the loss only if a token has it.
  const LayerKind kind = model_.layers[1].kind;
  const auto place = static_cast<std::size_t>(kind == LayerKind::experts ? model_.experts.router : model_.decoder.down);
  weights[1][place] = std::nan("");
  const TemplateResult result = run_templates(model_, kBatch, weights, {tokens_}, {});
  EXPECT_TRUE(std::isnan(result.losses[0]));
  const std::vector<double> gradient = widened_gradient(result.gradients[1], ElementType::fp32);
  EXPECT_TRUE(std::isnan(gradient[place]));
}

TEST_P(Templates, RefusesATokenBehindTheVocabulary) {
  std::vector<std::int32_t> tokens = tokens_;
  tokens[40] = static_cast<std::int32_t>(model_.config.vocabulary);  // second sequence, position 2
  try {
    run_templates(model_, kBatch, weights_, {tokens}, {});
    FAIL() << "no exception";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("token 2 of sequence 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("is 19"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Templates,
                         testing::Values(NamedConfig{"llama", tiny_llama()}, NamedConfig{"qwen2", tiny_qwen2()},
                                         NamedConfig{"qwen3", tiny_qwen3()}, NamedConfig{"mixtral", tiny_mixtral()},
                                         NamedConfig{"qwen3_moe", tiny_qwen3_moe()},
                                         NamedConfig{"olmoe", tiny_olmoe()}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(TemplateBinding, RefusesPassesThatALayerDoesNotHave) {
  const Model model = make_model(tiny_llama());
  TemplateBinding binding;
  binding.model = &model;
  binding.batch = kBatch;
  binding.kind = LayerKind::embedding;
  binding.pass = Pass::recompute;
  EXPECT_THROW(run_template_host(binding), std::logic_error);
  binding.kind = LayerKind::head;
  binding.pass = Pass::backward;
  EXPECT_THROW(run_template_host(binding), std::logic_error);
  binding.kind = LayerKind::decoder;
  binding.pass = Pass::forward;  // nothing bound
  EXPECT_THROW(run_template_host(binding), std::logic_error);
}

}  // namespace
}  // namespace penstock::exec
