// Layers that do not train: their weights keep their bits, the others get the same gradients as if all trained.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

std::vector<std::uint16_t> weights_of(const SmallRun& run, const StateReader& states, int layer) {
  std::vector<std::uint16_t> weights(
      static_cast<std::size_t>(run.model().layers[static_cast<std::size_t>(layer)].state_elements));
  states.read_weights(layer, 0, weights);
  return weights;
}

TEST(Frozen, WeightsStayAndOthersTrain) {
  for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()})
    for (const auto& names : small::frozen_sets(model)) {
      SmallRun run(small::input(small::frozen(model, names), "penstock"));
      run.training().load(*random_states(3));
      std::vector<std::vector<std::uint16_t>> before;
      for (const Layer& layer : run.model().layers)
        before.push_back(weights_of(run, run.training().states(), layer.index));
      run.training().run(run.options(4));
      for (const Layer& layer : run.model().layers) {
        const bool same =
            weights_of(run, run.training().states(), layer.index) == before[static_cast<std::size_t>(layer.index)];
        EXPECT_EQ(same, !layer.trains) << model.config.name << " layer " << layer.index << " of " << names.front();
      }
      EXPECT_LT(run.bits().losses.back(), run.bits().losses.front() + 0.1);
    }
}

/// Every variant of the schedule: groups, blocks, kept activations, where the optimizer is.
TEST(Frozen, SchedulesAgree) {
  for (const Model& model : {small::llama(), small::qwen2_tied()})
    for (const auto& names : small::frozen_sets(model)) {
      PolicyInput in = small::input(small::frozen(model, names), "penstock");
      const RunBits reference = run_bits(in, 4);
      for (const PresetInfo& preset : presets()) {
        PolicyInput other = small::input(in.model, preset.name);
        other.parameters.numerics = Numerics{};
        if (other.parameters.optimizer_time == OptimizerTime::backward)
          other.parameters.optimizer_time = OptimizerTime::end;
        EXPECT_EQ(run_bits(other, 4), reference) << preset.name << " " << names.front();
      }
      in.parameters.group = 2;
      in.parameters.checkpoint_every = 3;
      in.parameters.resident_weights = 2;
      EXPECT_EQ(run_bits(in, 4), reference) << names.front();
      in.parameters.checkpoint_every = 1;
      in.parameters.keep = Keep::everything;
      in.parameters.activations = TierKind::dram;
      EXPECT_EQ(run_bits(in, 4), reference) << names.front();
    }
}

/// Without clipping the update of a layer depends on nothing but its own gradient: after one step, what trains is what
/// it would be if all trained.
TEST(Frozen, FirstUpdateOfOthersIsThatOfAWholeTraining) {
  for (const Model& model : {small::llama(), small::qwen3()}) {
    PolicyInput all = small::input(model, "penstock");
    all.parameters.numerics.clip = false;
    PolicyInput some = all;
    some.model = small::frozen(model, {"embed_tokens", "layers.0", "layers.3"});
    SmallRun whole(all), part(some);
    for (SmallRun* run : {&whole, &part}) {
      run->training().load(*random_states(3));
      run->training().run(run->options(1));
    }
    EXPECT_EQ(whole.bits().losses, part.bits().losses);
    for (const Layer& layer : part.model().layers) {
      const auto a = weights_of(whole, whole.training().states(), layer.index);
      const auto b = weights_of(part, part.training().states(), layer.index);
      EXPECT_EQ(a == b, layer.trains) << layer.index;
    }
  }
}

TEST(Frozen, HasNoStatesAndTheNormIsOfWhatTrains) {
  PolicyInput in = small::input(small::llama(), "penstock");
  const auto host = [](const PolicyInput& input) { return arena_bytes(input).dram; };
  const std::int64_t before = host(in);
  const std::int64_t elements = in.model.layers[2].state_elements;
  in.model = small::frozen(in.model, {"layers.1"});
  // Low bits, two moments, and the gradient that waits.
  EXPECT_EQ(before - host(in), elements * (2 + 4 + 4 + 2));
  const Schedule schedule = make_schedule(in);
  for (const Op& op : schedule.ops)
    if (std::holds_alternative<StepScalarsWork>(op.work)) {
      EXPECT_EQ(op.reads.size(), 6u);  // of 7 layers
    }
}

}  // namespace
}  // namespace penstock::exec
