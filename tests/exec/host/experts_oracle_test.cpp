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

/// fp32 against double: transformers' own rounding is what differs.
constexpr double kTolerance = 1e-5;

void compare(const std::string& family, const ModelConfig& config) {
  const Recording expected = recording(family);
  const Model model = make_model(config);
  const BatchShape batch{2, 7};
  const double scale = 1.0 / static_cast<double>(batch.tokens());
  const WholeRun run = run_in_double(model, batch, {}, tiny_weights(model), tiny_tokens(model, batch), scale, false);
  ASSERT_TRUE(expected.contains("loss"));
  EXPECT_NEAR(scale * run.loss, expected.at("loss").norm, kTolerance);
  std::size_t compared = 1;
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

}  // namespace
}  // namespace penstock::exec
