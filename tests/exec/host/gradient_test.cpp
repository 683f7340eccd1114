// Gradients of whole tiny models against central differences, in double: the code that trains, without its rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

constexpr BatchShape kBatch{2, 7};                          // 14 tokens
const Chunking kChunks{.mlp_tokens = 4, .loss_tokens = 5};  // neither divides 14
// Step h: truncation h^2 f''' / 6 and rounding 1e-16 f / h are both below 1e-9 for a loss of order 1.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;

/// The gradient with respect to every parameter, tied uses added.
std::vector<std::vector<double>> parameter_gradients(const Model& model, const WholeRun& run) {
  std::vector<std::vector<double>> gradients = run.gradients;
  std::vector<double>& head = gradients.back();
  if (model.config.tied_embeddings)
    for (std::int64_t i = 0; i < model.config.vocabulary * model.config.hidden; ++i)
      gradients[0][static_cast<std::size_t>(i)] += head[static_cast<std::size_t>(model.head.projection + i)];
  return gradients;
}

void check_every_parameter(const ModelConfig& config) {
  const Model model = make_model(config);
  std::vector<std::vector<double>> weights = tiny_weights(model);
  const std::vector<std::int32_t> tokens = tiny_tokens(model, kBatch);
  const double scale = 1.0 / static_cast<double>(kBatch.tokens());
  const WholeRun run = run_in_double(model, kBatch, kChunks, weights, tokens, scale, true);
  const std::vector<std::vector<double>> gradients = parameter_gradients(model, run);
  const auto scaled_loss = [&] { return loss_in_double(model, kBatch, kChunks, weights, tokens, scale); };
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      double worst = 0, largest = 0;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const auto at = static_cast<std::size_t>(tensor.offset + i);
        double& weight = weights[static_cast<std::size_t>(layer.index)][at];
        const double before = weight;
        weight = before + kStep;
        const double above = scaled_loss();
        weight = before - kStep;
        const double below = scaled_loss();
        weight = before;
        const double analytic = gradients[static_cast<std::size_t>(layer.index)][at];
        worst = std::max(worst, std::abs((above - below) / (2 * kStep) - analytic));
        largest = std::max(largest, std::abs(analytic));
      }
      EXPECT_LT(worst, kTolerance) << tensor.name;
      // A gradient of zeros would agree with a loss that ignores the tensor.
      EXPECT_GT(largest, 1e-4) << tensor.name;
    }
}

TEST(Gradient, UntiedModelWithScaledRotaryAgreesWithCentralDifferences) { check_every_parameter(tiny_llama()); }
TEST(Gradient, TiedModelWithBiasesAgreesWithCentralDifferences) { check_every_parameter(tiny_qwen2()); }
TEST(Gradient, ModelWithQkNormAgreesWithCentralDifferences) { check_every_parameter(tiny_qwen3()); }

TEST(Gradient, ChunksChangeNothingButTheOrderOfAdditions) {
  const Model model = make_model(tiny_qwen3());
  const auto weights = tiny_weights(model);
  const auto tokens = tiny_tokens(model, kBatch);
  const WholeRun whole = run_in_double(model, kBatch, {}, weights, tokens, 1.0, false);
  const WholeRun chunked = run_in_double(model, kBatch, kChunks, weights, tokens, 1.0, true);
  EXPECT_NEAR(whole.loss, chunked.loss, 1e-12);
  for (std::size_t layer = 0; layer < whole.gradients.size(); ++layer)
    for (std::size_t i = 0; i < whole.gradients[layer].size(); ++i)
      ASSERT_NEAR(whole.gradients[layer][i], chunked.gradients[layer][i], 1e-12);
}

/// Rotary frequencies that go by a row's length are the same in each of its chunks, for any length of these.
TEST(Gradient, ChunksOfARowHaveItsDynamicFrequencies) {
  ModelConfig config = tiny_qwen3();
  config.rope_scaling = RopeScaling::dynamic;
  config.rope_factor = 4;
  config.max_positions = 5;
  const Model model = make_model(config);
  const auto weights = tiny_weights(model);
  BatchShape row{1, 23};
  const auto tokens = tiny_tokens(model, row);
  const WholeRun whole = run_in_double(model, row, {}, weights, tokens, 1.0, false);
  for (const std::int64_t chunk : {1, 7, 22}) {
    row.chunk_tokens = chunk;
    const WholeRun cut = run_in_double(model, row, {}, weights, tokens, 1.0, false);
    EXPECT_NEAR(cut.loss, whole.loss, 1e-12) << chunk;
    for (std::size_t layer = 0; layer < whole.gradients.size(); ++layer)
      for (std::size_t i = 0; i < whole.gradients[layer].size(); ++i)
        ASSERT_NEAR(cut.gradients[layer][i], whole.gradients[layer][i], 1e-12) << chunk;
  }
  config.max_positions = 1 << 10;
  EXPECT_GT(std::abs(run_in_double(make_model(config), row, {}, weights, tokens, 1.0, false).loss - whole.loss), 1e-6);
}

/// More queries than one block of the attention kernel: the sum over blocks must be the same function.
TEST(Gradient, LongSequenceAgreesWithCentralDifferences) {
  const BatchShape batch{1, 150};
  const Model model = make_model(tiny_qwen2());
  auto weights = tiny_weights(model);
  const auto tokens = tiny_tokens(model, batch);
  const double scale = 1.0 / 150.0;
  const WholeRun run = run_in_double(model, batch, {}, weights, tokens, scale, false);
  for (std::int64_t i = 0; i < model.qkv_columns() * model.config.hidden; i += 7) {
    const auto at = static_cast<std::size_t>(model.decoder.qkv + i);
    const double before = weights[1][at];
    weights[1][at] = before + kStep;
    const double above = loss_in_double(model, batch, {}, weights, tokens, scale);
    weights[1][at] = before - kStep;
    const double below = loss_in_double(model, batch, {}, weights, tokens, scale);
    weights[1][at] = before;
    ASSERT_NEAR((above - below) / (2 * kStep), run.gradients[1][at], kTolerance) << "element " << i << " of q, k, v";
  }
}

}  // namespace
}  // namespace penstock::exec
