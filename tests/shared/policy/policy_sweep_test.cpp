// Every preset, with every parameter that changes what crosses the link varied, passes the checker.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/ir/graph.h"
#include "shared/policy/evaluation.h"
#include "shared/scenario/keep_layers_text.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

std::string describe(const PolicyInput& in) {
  const PolicyParameters& p = in.parameters;
  return fmt::format(
      "{} {} group {}+{} keep {} K {} activations {} first {} {} {} time {} place {} sum_on_host {} sums {} gradients "
      "{} types {}/{} "
      "buffers {} slots {}/{} resident {}/{} edges {} clip {} micro-batches {} keep_layers \"{}\"",
      in.model.config.name, p.name, p.first_group, p.group, int(p.keep), p.checkpoint_every, int(p.activations),
      p.first_layers, int(p.first_keep), int(p.first_activations), int(p.optimizer_time), int(p.optimizer_place),
      p.numerics.sum_on_host, int(p.gradient_sums), int(p.gradients), int(p.numerics.gradient_sum),
      int(p.numerics.gradient_link), p.weight_buffers, p.activation_slots, p.gradient_slots, p.resident_weights,
      p.resident_states, p.resident_edges, p.numerics.clip, in.sequences / in.micro_batch,
      keep_layers_text(p.keep_layers));
}

/// Number of faults; the first one is shown.
std::size_t faults(const PolicyInput& in) {
  const Schedule schedule = make_schedule(in);
  const std::vector<Fault> found = check_schedule(schedule, 3);
  if (!found.empty()) ADD_FAILURE() << describe(in) << "\n  " << found.front().text;
  return found.size();
}

std::int64_t arena_end(const Schedule& schedule, TierKind kind) {
  std::int64_t end = 0;
  for (const Buffer& buffer : schedule.buffers)
    if (schedule.tiers[static_cast<std::size_t>(buffer.tier)].kind == kind)
      end = std::max(end, buffer.offset_bytes + buffer.bytes);
  return end;
}

std::vector<Model> models() { return {small::llama(), small::qwen2_tied(), small::qwen3()}; }

/// Presets that differ in what the two widest sweeps leave alone: blocks, a second forward, waits.
constexpr const char* kVaried[] = {"penstock", "megatrain-released", "zero3-offload"};

TEST(PolicySweep, PresetsAsTheyAre) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : models()) EXPECT_EQ(faults(small::input(model, preset.name)), 0u);
}

TEST(PolicySweep, GroupsKeepActivationsAndBlocks) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : models())
      for (const int group : {1, 2, 0})
        for (const Keep keep : kKeeps)
          for (const TierKind activations : {TierKind::hbm, TierKind::dram})
            for (const int every : {1, 2, 4}) {
              PolicyInput in = small::input(model, preset.name);
              in.parameters.group = group;
              in.parameters.keep = keep;
              in.parameters.activations = activations;
              in.parameters.checkpoint_every = every;
              if (keep == Keep::everything) {
                in.parameters.checkpoint_every = 1;
                in.parameters.recompute_loads = 0;
                in.parameters.forward_twice = false;
              }
              if (faults(in) > 0) return;
            }
}

TEST(PolicySweep, GradientsAndOptimizer) {
  for (const char* preset : kVaried)
    for (const Model& model : models())
      for (const int group : {1, 0})
        for (const OptimizerTime time : {OptimizerTime::end, OptimizerTime::next_forward, OptimizerTime::backward})
          for (const OptimizerPlace place : {OptimizerPlace::host, OptimizerPlace::gpu})
            for (const int sums : {0, 1, 2})  // HBM, DRAM over the link, host
              for (const TierKind gradients : {TierKind::hbm, TierKind::dram})
                for (const ElementType sum : {ElementType::bf16, ElementType::fp32})
                  for (const ElementType link : {ElementType::bf16, ElementType::fp32}) {
                    PolicyInput in = small::input(model, preset);
                    PolicyParameters& p = in.parameters;
                    p.group = group;
                    p.optimizer_time = time;
                    p.numerics.clip = time != OptimizerTime::backward;
                    p.optimizer_place = place;
                    p.numerics.sum_on_host = sums == 2;
                    p.gradient_sums = sums == 1 ? TierKind::dram : TierKind::hbm;
                    p.gradients = sums == 2 ? TierKind::dram : gradients;
                    p.numerics.gradient_sum = sum;
                    p.numerics.gradient_link = link;
                    if (faults(in) > 0) return;
                  }
}

TEST(PolicySweep, ResidentLayers) {
  for (const Model& model : models())
    for (const int weights : {-1, 0, 2, 5})
      for (const int states : {-1, 0, 1, 5})
        for (const OptimizerPlace place : {OptimizerPlace::host, OptimizerPlace::gpu})
          for (const TierKind gradients : {TierKind::hbm, TierKind::dram})
            for (const int buffers : {1, 2, 3, 9})
              for (const OptimizerTime time : {OptimizerTime::end, OptimizerTime::next_forward}) {
                PolicyInput in = small::input(model, "penstock");
                in.parameters.resident_weights = weights;
                in.parameters.resident_states = states;
                in.parameters.optimizer_place = place;
                in.parameters.gradients = gradients;
                in.parameters.weight_buffers = buffers;
                in.parameters.optimizer_time = time;
                if (faults(in) > 0) return;
              }
}

TEST(PolicySweep, SlotsBurstsLanesAndWaits) {
  for (const char* preset : kVaried)
    for (const Model& model : models())
      for (const int slots : {1, 2, 3})
        for (const HostWaits waits :
             {HostWaits::none, HostWaits::per_layer, HostWaits::per_buffer, HostWaits::on_compute})
          for (const CopyLanes lanes : {CopyLanes::shared, CopyLanes::per_direction})
            for (const BurstKind burst : {BurstKind::layer, BurstKind::tensor, BurstKind::fixed})
              for (const bool clip : {false, true}) {
                PolicyInput in = small::input(model, preset);
                PolicyParameters& p = in.parameters;
                p.activations = TierKind::dram;
                p.keep = Keep::input_attention;
                p.activation_slots = p.gradient_slots = slots;
                p.host_waits = waits;
                p.copy_lanes = lanes;
                p.burst = burst;
                p.burst_bytes = 4096;
                p.numerics.clip = clip;
                if (clip && p.optimizer_time == OptimizerTime::backward) p.optimizer_time = OptimizerTime::end;
                if (faults(in) > 0) return;
              }
}

TEST(PolicySweep, FirstGroupAndSingleMicroBatch) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : models()) {
      PolicyInput in = small::input(model, preset.name);
      in.parameters.first_group = 2;
      in.parameters.group = 1;
      EXPECT_EQ(faults(in), 0u);
      in.parameters = preset_parameters(preset.name);
      in.micro_batch = in.sequences;  // one micro-batch
      EXPECT_EQ(faults(in), 0u);
      in.parameters.activations = TierKind::dram;
      EXPECT_EQ(faults(in), 0u);
    }
}

/// A random point of the parameter space; contradictory ones are refused, all others proved.
PolicyInput random_input(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const std::vector<PresetInfo>& names = presets();
  const std::vector<Model> all = models();
  PolicyInput in = small::input(all[static_cast<std::size_t>(pick(0, 2))],
                                names[static_cast<std::size_t>(pick(0, static_cast<int>(names.size()) - 1))].name);
  in.micro_batch = 1 << pick(0, 3);
  PolicyParameters& p = in.parameters;
  p.group = pick(0, 4);
  p.first_group = pick(0, 2);
  p.weight_buffers = pick(1, 7);
  p.copy_lanes = static_cast<CopyLanes>(pick(0, 1));
  p.resident_weights = pick(-1, 5);
  p.resident_states = pick(0, 1) == 0 ? 0 : pick(-1, 5);
  p.keep = static_cast<Keep>(pick(0, 2));
  p.checkpoint_every = pick(1, 6);
  p.activations = static_cast<TierKind>(pick(0, 2));
  p.first_layers = pick(0, 1) * pick(0, 5);
  p.first_keep = static_cast<Keep>(pick(0, 2));
  p.first_activations = static_cast<TierKind>(pick(0, 2));
  p.resident_edges = pick(0, 3) == 0;
  for (int i = pick(0, 1) * pick(0, 3); i > 0; --i) {
    LayerKeep kept;
    kept.first = pick(1, 5);
    kept.last = pick(0, 1) == 0 ? -1 : pick(kept.first, 5);
    kept.count = pick(0, (kept.last < 0 ? 5 : kept.last) - kept.first + 1);
    kept.keep = static_cast<Keep>(pick(0, 2));
    kept.activations = static_cast<TierKind>(pick(0, 2));
    p.keep_layers.push_back(kept);
  }
  if (!p.keep_layers.empty() && pick(0, 3) > 0) p.checkpoint_every = 1;
  p.activation_slots = pick(1, 4);
  p.gradients = static_cast<TierKind>(pick(0, 1));
  p.gradient_sums = static_cast<TierKind>(pick(0, 2));
  p.gradient_slots = pick(1, 4);
  p.optimizer_place = static_cast<OptimizerPlace>(pick(0, 1));
  p.optimizer_time = static_cast<OptimizerTime>(pick(0, 2));
  p.recompute_loads = pick(0, 3) == 0;
  p.forward_twice = pick(0, 3) == 0;
  p.upload_copies = pick(0, 3) == 0;
  p.host_waits = static_cast<HostWaits>(pick(0, 3));
  p.host_pass_bytes_per_parameter = pick(0, 1);
  Numerics& n = p.numerics;
  n.states = static_cast<StateFormat>(pick(0, 2));
  n.moments = static_cast<ElementType>(pick(0, 1));
  n.gradient_sum = static_cast<ElementType>(pick(0, 1));
  n.gradient_link = static_cast<ElementType>(pick(0, 1));
  n.sum_on_host = pick(0, 2) == 0;
  n.clip = pick(0, 1) == 0;
  n.chunking.mlp_tokens = pick(0, 1) * 24;
  n.chunking.loss_tokens = pick(0, 1) * 16;
  if (pick(0, 1) == 0) return in;
  // What of NVMe contradicts the least.
  p.optimizer_place = OptimizerPlace::host;
  p.resident_states = pick(0, 2);
  p.nvme_states = p.resident_states > 0 ? pick(0, 3) : pick(-1, 5);
  p.nvme_weights = p.resident_states > 0 || p.upload_copies ? 0 : pick(-1, 5);
  p.nvme_slots = pick(1, 3);
  if (p.nvme_states != 0 && !n.sum_on_host && pick(0, 1) == 0) p.gradients = TierKind::nvme;
  return in;
}

/// Freezes some layers of it, more often than not.
void freeze_some(PolicyInput& in, std::mt19937_64& random) {
  const auto sets = small::frozen_sets(in.model);
  const std::size_t which = random() % (2 * sets.size());
  if (which < sets.size()) in.model = small::frozen(in.model, sets[which]);
}

std::size_t implied_edges(const Schedule& schedule) {
  std::size_t implied = 0;
  for (std::size_t i = 0; i < schedule.edges.size(); ++i) implied += edge_implied(schedule, i) ? 1 : 0;
  return implied;
}

TEST(PolicySweep, RandomPoints) {
  std::mt19937_64 random(20261129);
  int proved = 0, with_nvme = 0, with_frozen = 0;
  for (int i = 0; i < 3000; ++i) {
    PolicyInput in = random_input(random);
    freeze_some(in, random);
    try {
      if (faults(in) > 0) return;
      with_nvme += in.parameters.nvme_states != 0 || in.parameters.nvme_weights != 0;
      with_frozen += !in.model.config.frozen_layers.empty();
      if (++proved % 20 > 0) continue;
      EXPECT_EQ(implied_edges(make_schedule(in)), 0u) << describe(in);
    } catch (const InputError&) {
    }
  }
  EXPECT_GT(proved, 500);
  EXPECT_GT(with_nvme, 200);
  EXPECT_GT(with_frozen, 200);
}

TEST(PolicySweep, FrozenLayers) {
  for (const PresetInfo& preset : presets())
    for (const Model& model : models())
      for (const auto& names : small::frozen_sets(model)) {
        PolicyInput in = small::input(small::frozen(model, names), preset.name);
        EXPECT_EQ(faults(in), 0u) << names.front();
        EXPECT_EQ(arena_bytes(in).dram, arena_end(make_schedule(in), TierKind::dram)) << preset.name;
      }
}

/// Over the places of every schedule, whatever is trained.
TEST(PolicySweep, Evaluations) {
  std::mt19937_64 random(20261130);
  int proved = 0;
  for (int i = 0; i < 600; ++i) {
    PolicyInput in = random_input(random);
    freeze_some(in, random);
    try {
      const Schedule training = make_schedule(in), evaluation = make_evaluation(in);
      const std::vector<Fault> found = check_schedule(evaluation, 3);
      if (!found.empty()) FAIL() << describe(in) << "\n  " << found.front().text;
      require_same_places(training, evaluation, "");
      ++proved;
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find("[eval]"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(proved, 100);
}

}  // namespace
}  // namespace penstock
