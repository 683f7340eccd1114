// Small models of each family of mixtures of experts against transformers in fp32: loss and every gradient tensor, as
// scripts/experts-oracle recorded them (transformers 5.24.0).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "shared/ignored_label.h"
#include "tests/exec/host/tiny_models.h"
#include "tests/source_folder.h"

namespace penstock::exec {
namespace {

struct Recorded {
  double norm = 0, product = 0;
};
using Recording = std::map<std::string, Recorded>;  // by tensor; "loss" has its value as norm

Recording recording(const std::string& wanted) {
  std::ifstream file(source_folder() / "tests/exec/host/experts_oracle.csv");
  Recording found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, tensor, norm, product;
    std::getline(fields, name, ',');
    std::getline(fields, tensor, ',');
    std::getline(fields, norm, ',');
    std::getline(fields, product, ',');
    if (name == wanted) found[tensor] = {std::stod(norm), product.empty() ? 0 : std::stod(product)};
  }
  return found;
}

/// As the script's padded cases: two rows of 7, of which the second ends with so many places that are padding.
constexpr std::int64_t kPadding = 3;
PackedRows padded(const std::vector<std::int32_t>& windows) {
  PackedRows rows;
  for (std::int64_t sequence = 0; sequence < 2; ++sequence)
    for (std::int64_t place = 0; place < 7; ++place) {
      const bool is_padding = sequence == 1 && place >= 7 - kPadding;
      const auto at = static_cast<std::size_t>(8 * sequence + place);
      rows.tokens.push_back(is_padding ? 0 : windows[at]);
      rows.labels.push_back(is_padding ? kIgnoredLabel : windows[at + 1]);
      rows.document_starts.push_back(is_padding ? 7 - kPadding : 0);
    }
  return rows;
}

/// fp32 against double: transformers' own rounding is what differs.
constexpr double kTolerance = 1e-5;

ModelConfig balanced(ModelConfig config) {
  config.experts.balance = 0.5;
  return config;
}

void compare(const std::string& family, const ModelConfig& config) {
  const Recording expected = recording(family);
  const Model model = make_model(config);
  const bool is_padded = family.ends_with("_padded");
  const BatchShape batch{2, 7, is_padded ? BatchKind::packed : BatchKind::windows};
  const std::vector<std::int32_t> tokens = tiny_tokens(model, {2, 7});
  const TinyRows rows = is_padded ? TinyRows(padded(tokens)) : TinyRows(tokens);
  const double scale = 1.0 / static_cast<double>(batch.tokens() - (is_padded ? kPadding : 0));
  const WholeRun run = run_in_double(model, batch, {}, tiny_weights(model), rows, scale, false);
  ASSERT_TRUE(expected.contains("loss"));
  EXPECT_NEAR(scale * run.loss, expected.at("loss").norm, kTolerance);
  std::size_t compared = 1;
  if (balances(config)) {
    ASSERT_TRUE(expected.contains("balance"));
    EXPECT_NEAR(run.balance, expected.at("balance").norm, kTolerance);
    ++compared;
  }
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      ASSERT_TRUE(expected.contains(tensor.name)) << tensor.name;
      const Recorded& recorded = expected.at(tensor.name);
      double squares = 0, product = 0;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const double value =
            run.gradients[static_cast<std::size_t>(layer.index)][static_cast<std::size_t>(tensor.offset + i)];
        squares += value * value;
        product += value * std::cos(0.7 * static_cast<double>(i) + 0.3);
      }
      const double size = std::max(recorded.norm, 1e-3);
      EXPECT_NEAR(std::sqrt(squares), recorded.norm, kTolerance * size) << tensor.name;
      EXPECT_NEAR(product, recorded.product, kTolerance * size * std::sqrt(static_cast<double>(tensor.elements())))
          << tensor.name;
      ++compared;
    }
  EXPECT_EQ(compared, expected.size());
}

TEST(ExpertsOracle, Qwen3MoeOfDenseLayersAndExperts) { compare("qwen3_moe", tiny_qwen3_moe()); }
TEST(ExpertsOracle, Mixtral) { compare("mixtral", tiny_mixtral()); }
TEST(ExpertsOracle, Olmoe) { compare("olmoe", tiny_olmoe()); }

TEST(ExpertsOracle, Qwen3MoeWithTheLoadBalancingLoss) { compare("qwen3_moe_balanced", balanced(tiny_qwen3_moe())); }
TEST(ExpertsOracle, MixtralWithTheLoadBalancingLoss) { compare("mixtral_balanced", balanced(tiny_mixtral())); }
TEST(ExpertsOracle, OlmoeWithTheLoadBalancingLoss) { compare("olmoe_balanced", balanced(tiny_olmoe())); }
// Padding counts neither as a choice nor in the mean of the probabilities.
TEST(ExpertsOracle, MixtralOfPaddedRows) { compare("mixtral_padded", balanced(tiny_mixtral())); }
TEST(ExpertsOracle, Qwen3MoeOfPaddedRows) { compare("qwen3_moe_padded", balanced(tiny_qwen3_moe())); }

}  // namespace
}  // namespace penstock::exec
