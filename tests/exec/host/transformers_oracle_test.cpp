// Windows and scaled rotary frequencies against what transformers made of the same config.json, weights and tokens: what
// scripts/model-oracles recorded. Arithmetic here is in double; there norms, softmax and angles are in fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/model/config_json.h"
#include "shared/model/rotary_frequencies.h"
#include "tests/exec/host/tiny_models.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::exec {
namespace {

using nlohmann::json;

const json& recorded() {
  static const json all = json::parse(std::ifstream(source_folder() / "tests/exec/host/transformers_oracle.json"));
  return all;
}

ModelConfig config_of(const json& figures) {
  const TemporaryFolder folder;
  folder.write("config.json", figures.dump());
  return read_model_config(folder.path() / "config.json");
}

/// record_oracle.py's numbers from -0.5 to 0.5.
class Unit {
 public:
  explicit Unit(const std::string& key) {
    for (const char c : key) seed_ = seed_ * 31 + static_cast<unsigned char>(c);
  }
  double at(std::int64_t i) const {
    std::uint32_t x = seed_ * 0x9E3779B1u + static_cast<std::uint32_t>(i) * 0x85EBCA77u;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    return x / 4294967296.0 - 0.5;
  }

 private:
  std::uint32_t seed_ = 0;
};

std::vector<std::vector<double>> weights_of(const Model& model) {
  std::vector<std::vector<double>> weights;
  for (const Layer& layer : model.layers) {
    weights.emplace_back(static_cast<std::size_t>(layer.state_elements));
    for (const ParameterTensor& tensor : layer.tensors) {
      const Unit unit(tensor.name);
      const double base = tensor.name.find("norm") == std::string::npos ? 0 : 1;
      for (std::int64_t i = 0; i < tensor.elements(); ++i)
        weights.back()[static_cast<std::size_t>(tensor.offset + i)] = base + unit.at(i);
    }
  }
  return weights;
}

/// Rows of equal length, or one packed row of documents.
TinyRows rows_of(const json& recorded_case, std::int64_t vocabulary) {
  TinyRows rows(std::vector<std::int32_t>{});
  const bool packed = recorded_case["packed"];
  for (std::size_t row = 0; row < recorded_case["lengths"].size(); ++row) {
    const auto length = recorded_case["lengths"][row].get<std::int64_t>();
    const Unit unit("row " + std::to_string(row));
    const auto id = [&](std::int64_t i) {
      return static_cast<std::int32_t>((unit.at(i) + 0.5) * static_cast<double>(vocabulary));
    };
    const auto start = static_cast<std::int32_t>(rows.tokens.size());
    for (std::int64_t i = 0; i < length + (packed ? 0 : 1); ++i) rows.tokens.push_back(id(i));
    if (!packed) continue;
    for (std::int64_t i = 0; i < length; ++i) rows.labels.push_back(id(i + 1));
    rows.document_starts.resize(rows.tokens.size(), start);
  }
  return rows;
}

TEST(TransformersOracle, LossesAndGradientsOfEveryModel) {
  for (const json& c : recorded()["models"]) {
    const std::string name = c["name"];
    const Model model = make_model(config_of(c["config"]));
    const TinyRows rows = rows_of(c, model.config.vocabulary);
    const auto count = static_cast<std::int64_t>(c["lengths"].size());
    const BatchShape batch = c["packed"]
                                 ? BatchShape{1, static_cast<std::int64_t>(rows.tokens.size()), BatchKind::packed}
                                 : BatchShape{count, c["lengths"][0].get<std::int64_t>()};
    const WholeRun run = run_in_double(model, batch, {}, weights_of(model), rows, 1.0, false);
    const double loss = c["loss"];
    EXPECT_NEAR(run.loss, loss, 1e-6 * loss) << name;
    double largest = 0;
    for (const auto& [tensor, probe] : c["probes"].items()) largest = std::max(largest, std::abs(probe.get<double>()));
    std::size_t tensors = 0;
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        double probe = 0;
        const Unit unit("probe");
        for (std::int64_t i = 0; i < tensor.elements(); ++i)
          probe += unit.at(i) *
                   run.gradients[static_cast<std::size_t>(layer.index)][static_cast<std::size_t>(tensor.offset + i)];
        EXPECT_NEAR(probe, c["probes"].at(tensor.name).get<double>(), 1e-5 * largest) << name << ": " << tensor.name;
        ++tensors;
      }
    EXPECT_EQ(tensors, c["probes"].size()) << name;
  }
}

TEST(TransformersOracle, FrequenciesOfRealModels) {
  for (const json& c : recorded()["frequencies"]) {
    const ModelConfig config = config_of(c["config"]);
    const std::vector<double> ours = rotary_frequencies(config, c["length"]);
    const auto theirs = c["frequencies"].get<std::vector<double>>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], 3e-6 * theirs[i]) << c["name"] << ", pair " << i;
    EXPECT_NEAR(config.rope_attention_factor, c["factor"].get<double>(), 1e-12) << c["name"];
  }
}

}  // namespace
}  // namespace penstock::exec
