// Which elements take weight decay, and that no others do.
#include "exec/training/decay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

bool is_undecayed(const UndecayedRanges& ranges, std::int64_t at) {
  for (int i = 0; i < ranges.count; ++i)
    if (at >= ranges.begin[i] && at < ranges.end[i]) return true;
  return false;
}

TEST(Decay, RangesAreTheNormsAndBiases) {
  for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()})
    for (const Decay decay : {Decay::all, Decay::matrices, Decay::matrices_and_embeddings})
      for (const Layer& layer : model.layers) {
        const UndecayedRanges ranges = undecayed_ranges(layer, decay);
        for (const ParameterTensor& tensor : layer.tensors) {
          const bool is_vector = tensor.name.find("norm") != std::string::npos || tensor.name.ends_with(".bias");
          const bool is_embedding = tensor.name == "model.embed_tokens.weight";
          const bool expected = decay != Decay::all && (is_vector || (is_embedding && decay == Decay::matrices));
          EXPECT_EQ(is_undecayed(ranges, tensor.offset), expected) << tensor.name;
          EXPECT_EQ(is_undecayed(ranges, tensor.offset + tensor.elements() - 1), expected) << tensor.name;
        }
        for (int i = 0; i < ranges.count; ++i) {
          EXPECT_EQ(ranges.begin[i] % kGroupAlignment, 0);
          EXPECT_TRUE(ranges.end[i] == layer.state_elements || ranges.end[i] % kGroupAlignment == 0);
        }
      }
}

TEST(Decay, AllHasNoRanges) {
  for (const Layer& layer : small::qwen2_tied().layers) EXPECT_EQ(undecayed_ranges(layer, Decay::all).count, 0);
}

/// With a learning rate of 1e-2 and a decay of 10, one step takes a tenth off what decays, besides the step itself.
std::vector<float> after_one_step(const PolicyInput& in, Decay decay, int layer) {
  SmallRun run(in);
  Training training(run.schedule(), run.model(), run.backend(), nullptr, decay);
  training.load(*random_states(3));
  TrainingOptions options = run.options(1);
  options.learning_rate_warmup_steps = 0;
  options.hyper.weight_decay = 10;
  training.run(options);
  std::vector<float> values(
      static_cast<std::size_t>(run.model().layers[static_cast<std::size_t>(layer)].state_elements));
  training.states().read_layer(layer, StatePart::master, 0, values);
  return values;
}

TEST(Decay, TrainingDecaysWhatItSays) {
  const PolicyInput in = small::input(small::qwen2_tied(), "penstock");
  for (const int layer : {0, 3, 6}) {
    const std::vector<float> all = after_one_step(in, Decay::all, layer);
    for (const Decay decay : {Decay::matrices, Decay::matrices_and_embeddings}) {
      const std::vector<float> some = after_one_step(in, decay, layer);
      const UndecayedRanges ranges = undecayed_ranges(in.model.layers[static_cast<std::size_t>(layer)], decay);
      for (const ParameterTensor& tensor : in.model.layers[static_cast<std::size_t>(layer)].tensors)
        for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements(); i += 7) {
          const auto at = static_cast<std::size_t>(i);
          if (!is_undecayed(ranges, i)) {
            ASSERT_EQ(some[at], all[at]) << tensor.name;
          } else if (std::abs(some[at]) > 0.1F) {  // weights of norms begin with 1
            ASSERT_NEAR(some[at] - all[at], 0.1, 1e-3) << tensor.name;
          }
        }
    }
  }
}

}  // namespace
}  // namespace penstock::exec
