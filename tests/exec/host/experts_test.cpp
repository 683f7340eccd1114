// Mixtures of experts on the host: the router's choice by hand, gradients against central differences, bits.
#include "exec/host/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "exec/host/balance.h"
#include "exec/host/scratch.h"
#include "exec/runtime/run_memory.h"
#include "shared/ignored_label.h"
#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Chosen {
  std::vector<std::int32_t> choice;
  std::vector<double> weights;
};

Chosen choose(const Experts& experts, const std::vector<double>& logits) {
  const auto tokens = static_cast<std::int64_t>(logits.size()) / experts.count;
  Chosen chosen{std::vector<std::int32_t>(static_cast<std::size_t>(tokens * experts.per_token)),
                std::vector<double>(static_cast<std::size_t>(tokens * experts.per_token))};
  choose_experts(experts, logits.data(), tokens, chosen.choice.data(), chosen.weights.data());
  return chosen;
}

// Probabilities 1/8, 4/8, 2/8, 1/8.
const std::vector<double> kLogits{0, std::log(4), std::log(2), 0};

TEST(ChooseExperts, TakesTheLargestBestFirst) {
  const Chosen chosen = choose({.count = 4, .per_token = 3, .normalised = false, .dense_layers = {}}, kLogits);
  EXPECT_EQ(chosen.choice, (std::vector<std::int32_t>{1, 2, 0}));  // of equals the first
  EXPECT_NEAR(chosen.weights[0], 4.0 / 8, 1e-15);
  EXPECT_NEAR(chosen.weights[1], 2.0 / 8, 1e-15);
  EXPECT_NEAR(chosen.weights[2], 1.0 / 8, 1e-15);
}

TEST(ChooseExperts, NormalisedWeightsAddUpToOne) {
  const Chosen chosen = choose({.count = 4, .per_token = 2, .normalised = true, .dense_layers = {}}, kLogits);
  EXPECT_NEAR(chosen.weights[0], 4.0 / 6, 1e-15);
  EXPECT_NEAR(chosen.weights[1], 2.0 / 6, 1e-15);
}

TEST(ChooseExperts, LargeLogitsDoNotOverflow) {
  const Chosen chosen =
      choose({.count = 3, .per_token = 2, .normalised = true, .dense_layers = {}}, {1e30, 1e30, -1e30});
  EXPECT_EQ(chosen.weights, (std::vector<double>{0.5, 0.5}));
}

TEST(ChooseExperts, NanIsChosenAndSeen) {
  const Chosen chosen = choose({.count = 4, .per_token = 2, .normalised = true, .dense_layers = {}}, {3, kNan, 5, 1});
  EXPECT_EQ(chosen.choice, (std::vector<std::int32_t>{1, 2}));
  EXPECT_TRUE(std::isnan(chosen.weights[0]));
  const Chosen none = choose({.count = 2, .per_token = 2, .normalised = false, .dense_layers = {}}, {kNan, kNan});
  EXPECT_EQ(none.choice, (std::vector<std::int32_t>{0, 1}));
}

// Probabilities of both tokens are those of kLogits, and both choose experts 1 and 2: f = (0, 1, 1, 0), 4 (1/2 + 1/4) = 3.
TEST(Balance, IsExpertsTimesTheSumOfChoicesAndProbabilities) {
  const Experts experts{.count = 4, .per_token = 2, .dense_layers = {}};
  std::vector<double> logits = kLogits;
  logits.insert(logits.end(), kLogits.begin(), kLogits.end());
  const Chosen chosen = choose(experts, logits);
  std::vector<double> sums(8, 0.0), gradient(8);
  const RealTokens windows({1, 2}, nullptr, nullptr);
  add_balance(experts, logits.data(), chosen.choice.data(), windows, sums.data(), sums.data());
  EXPECT_EQ(std::vector<double>(sums.begin(), sums.begin() + 4), (std::vector<double>{0, 2, 2, 0}));
  EXPECT_NEAR(balance_loss(experts, sums.data(), 0.5, gradient.data()), 3, 1e-14);
  EXPECT_NEAR(gradient[1], 0.5 * 4 / 2, 1e-14);  // scale x experts x f / n
  EXPECT_EQ(gradient[0], 0);
  EXPECT_EQ(balance_loss(experts, sums.data(), 0.5, nullptr), balance_loss(experts, sums.data(), 1, gradient.data()));
  // A second layer with the same choices doubles the sums and not the loss.
  std::vector<double> both(8);
  add_balance(experts, logits.data(), chosen.choice.data(), windows, sums.data(), both.data());
  EXPECT_NEAR(balance_loss(experts, both.data(), 1, nullptr), 3, 1e-14);
}

TEST(Balance, LeavesOutPaddingAndNotWhatIsMerelyRead) {
  const Experts experts{.count = 4, .per_token = 1, .dense_layers = {}};
  std::vector<double> logits;
  for (int token = 0; token < 8; ++token) logits.insert(logits.end(), kLogits.begin(), kLogits.end());
  const Chosen chosen = choose(experts, logits);
  // Two rows of four places: a document and padding, and two documents of which only the second place of each counts.
  const std::vector<std::int32_t> starts{0, 0, 2, 2, 0, 0, 2, 2};
  const std::vector<std::int32_t> labels{
      5, kIgnoredLabel, kIgnoredLabel, kIgnoredLabel, kIgnoredLabel, 5, kIgnoredLabel, 5};
  const RealTokens tokens({2, 4, BatchKind::packed}, labels.data(), starts.data());
  std::vector<double> sums(8, 0.0), d_logits(logits.size(), 0.0);
  add_balance(experts, logits.data(), chosen.choice.data(), tokens, sums.data(), sums.data());
  EXPECT_EQ(sums[1], 6);
  EXPECT_NEAR(sums[4], 6.0 / 8, 1e-14);
  const std::vector<double> gradient{0, 1, 0, 0};
  add_balance_gradient(experts, logits.data(), tokens, gradient.data(), d_logits.data());
  EXPECT_NEAR(d_logits[1], 0.5 * (1 - 0.5), 1e-14);
  EXPECT_NEAR(d_logits[4], 0.125 * -0.5, 1e-14);
  EXPECT_EQ(d_logits[2 * 4 + 1], 0);
  EXPECT_EQ(d_logits[3 * 4 + 1], 0);
  // Nothing but padding has no loss.
  const std::vector<std::int32_t> none(8, kIgnoredLabel), whole(8, 0);
  std::vector<double> nothing(8, 0.0);
  add_balance(experts, logits.data(), chosen.choice.data(),
              RealTokens({2, 4, BatchKind::packed}, none.data(), whole.data()), nothing.data(), nothing.data());
  EXPECT_EQ(balance_loss(experts, nothing.data(), 1, d_logits.data()), 0);
  EXPECT_EQ(d_logits[1], 0);
}

TEST(OrderRows, IsByExpertsThenByTokens) {
  const Experts experts{.count = 4, .per_token = 2, .dense_layers = {}};
  const std::vector<std::int32_t> choice{3, 0, 0, 1, 3, 1};  // of three tokens
  std::vector<std::int32_t> first(5), row(6), choice_of(6);
  order_rows(experts, choice.data(), 3, {first.data(), row.data(), choice_of.data()});
  EXPECT_EQ(first, (std::vector<std::int32_t>{0, 2, 4, 4, 6}));
  EXPECT_EQ(choice_of, (std::vector<std::int32_t>{1, 2, 3, 5, 0, 4}));
  EXPECT_EQ(row, (std::vector<std::int32_t>{4, 0, 1, 2, 5, 3}));
}

TEST(ChooseExpertsBackward, AgreesWithCentralDifferences) {
  for (const bool normalised : {false, true}) {
    const Experts experts{.count = 5, .per_token = 3, .normalised = normalised, .dense_layers = {}};
    std::vector<double> logits{0.3, -0.4, 1.1, 0.2, 0.9};
    const std::vector<double> d_weights{0.7, -1.3, 0.4};
    const auto value = [&] {
      const Chosen chosen = choose(experts, logits);
      return std::inner_product(d_weights.begin(), d_weights.end(), chosen.weights.begin(), 0.0);
    };
    const Chosen chosen = choose(experts, logits);
    std::vector<double> gradient(5);
    choose_experts_backward(experts, logits.data(), 1, chosen.choice.data(), chosen.weights.data(), d_weights.data(),
                            gradient.data());
    for (std::size_t e = 0; e < logits.size(); ++e) {
      const double before = logits[e], step = 1e-6;
      logits[e] = before + step;
      const double above = value();
      logits[e] = before - step;
      const double below = value();
      logits[e] = before;
      EXPECT_NEAR(gradient[e], (above - below) / (2 * step), 1e-9) << "expert " << e << " normalised " << normalised;
    }
  }
}

/// A model whose copies in fp32 are far larger than the fixed part of what is counted.
TEST(ExpertScratch, IsNoMoreThanIsCounted) {
  ModelConfig config = tiny_mixtral();
  config.hidden = 320;
  config.experts.count = 8;
  config.experts.intermediate = 800;
  config.decoder_layers = 1;
  const Model model = make_model(config);
  const BatchShape batch{2, 37};
  for (const Chunking& chunking : {Chunking{}, Chunking{.mlp_tokens = 20}}) {
    std::int64_t held = 0;
    std::jthread([&] {  // a stack of its own
      run_templates(model, batch, tiny_weights(model), {tiny_tokens(model, batch)},
                    {.keep = Keep::input, .chunking = chunking});
      held = ScratchScope::held_bytes();
    })
        .join();
    EXPECT_LE(held, host_kernel_bytes(model, batch, chunking));
    EXPECT_GT(held, host_kernel_bytes(model, batch, chunking) / 4);
  }
}

// --- whole models -------------------------------------------------------------------------------------------------

constexpr BatchShape kBatch{2, 7};
const Chunking kChunks{.mlp_tokens = 4, .loss_tokens = 5};  // neither divides 14

class ExpertModels : public testing::TestWithParam<ModelConfig> {
 protected:
  Model model_ = make_model(GetParam());
  std::vector<std::vector<double>> weights_ = tiny_weights(model_);
  std::vector<std::int32_t> tokens_ = tiny_tokens(model_, kBatch);
};

/// Every third element.
TEST_P(ExpertModels, GradientsAgreeWithCentralDifferences) {
  const double scale = 1.0 / 14, step = 1e-5;
  const WholeRun run = run_in_double(model_, kBatch, kChunks, weights_, tokens_, scale, true);
  const auto loss = [&] { return loss_in_double(model_, kBatch, kChunks, weights_, tokens_, scale); };
  for (const Layer& layer : model_.layers) {
    if (!is_decoder(layer.kind)) continue;
    auto& weights = weights_[static_cast<std::size_t>(layer.index)];
    for (std::int64_t i = 0; i < layer.state_elements; i += 3) {
      double& weight = weights[static_cast<std::size_t>(i)];
      const double before = weight;
      if (before == 0) continue;  // padding
      weight = before + step;
      const double above = loss();
      weight = before - step;
      const double below = loss();
      weight = before;
      ASSERT_NEAR((above - below) / (2 * step),
                  run.gradients[static_cast<std::size_t>(layer.index)][static_cast<std::size_t>(i)], 2e-8)
          << "layer " << layer.index << " element " << i;
    }
  }
}

TEST_P(ExpertModels, ChunksChangeNothingButTheOrderOfAdditions) {
  const WholeRun whole = run_in_double(model_, kBatch, {}, weights_, tokens_, 1.0, false);
  const WholeRun chunked = run_in_double(model_, kBatch, kChunks, weights_, tokens_, 1.0, true);
  EXPECT_NEAR(whole.loss, chunked.loss, 1e-12);
  for (std::size_t layer = 0; layer < whole.gradients.size(); ++layer)
    for (std::size_t i = 0; i < whole.gradients[layer].size(); ++i)
      ASSERT_NEAR(whole.gradients[layer][i], chunked.gradients[layer][i], 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertModels, testing::Values(tiny_qwen3_moe(), tiny_mixtral(), tiny_olmoe()),
                         [](const auto& param) {
                           return std::string(model_family_names()[static_cast<std::size_t>(param.param.family)]);
                         });

/// The router's rows of layer 1 become `row` for every expert.
std::vector<std::vector<double>> with_router(const Model& model,
                                             const std::function<double(std::int64_t, std::int64_t)>& value) {
  auto weights = tiny_weights(model);
  for (std::int64_t e = 0; e < model.config.experts.count; ++e)
    for (std::int64_t i = 0; i < model.config.hidden; ++i)
      weights[1][static_cast<std::size_t>(model.experts.router + e * model.config.hidden + i)] = value(e, i);
  return weights;
}

/// Equal logits: every token takes the first experts, and the others get no gradient at all.
TEST(ExpertExtremes, AllTokensMayChooseTheSameExperts) {
  const Model model = make_model(tiny_mixtral());
  const auto weights = with_router(model, [](std::int64_t, std::int64_t) { return 0.0; });
  const TemplateResult result =
      run_templates(model, kBatch, weights, {tiny_tokens(model, kBatch)}, {.keep = Keep::input});
  const std::vector<double> gradient = widened_gradient(result.gradients[1], ElementType::fp32);
  const auto largest = [&](std::int64_t first, std::int64_t count) {
    double most = 0;
    for (std::int64_t i = first; i < first + count; ++i)
      most = std::max(most, std::abs(gradient[static_cast<std::size_t>(i)]));
    return most;
  };
  const DecoderOffsets& at = model.experts;
  for (std::int64_t e = 0; e < 4; ++e) {
    EXPECT_EQ(largest(at.gate_up + e * at.gate_up_stride, at.gate_up_stride) > 0, e < 2) << "expert " << e;
    EXPECT_EQ(largest(at.down + e * at.down_stride, at.down_stride) > 0, e < 2) << "expert " << e;
  }
  EXPECT_TRUE(std::isfinite(result.losses[0]));
}

TEST(ExpertExtremes, NanInARouterReachesTheLossAndTheGradients) {
  const Model model = make_model(tiny_olmoe());
  const auto weights = with_router(model, [](std::int64_t e, std::int64_t i) { return e == 3 && i == 0 ? kNan : 0.1; });
  const TemplateResult result =
      run_templates(model, kBatch, weights, {tiny_tokens(model, kBatch)}, {.keep = Keep::input});
  EXPECT_TRUE(std::isnan(result.losses[0]));
  const std::vector<double> gradient = widened_gradient(result.gradients[1], ElementType::fp32);
  EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](double value) { return std::isnan(value); }));
}

}  // namespace
}  // namespace penstock::exec
