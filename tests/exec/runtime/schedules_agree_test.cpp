// The schedule moves data, it never changes the mathematics: schedules with the same micro-batching and the same
// numerics give the same loss bits, norm bits and final states, whatever else differs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

constexpr int kSteps = 5;

struct Variant {
  std::string name;
  std::function<void(PolicyParameters&)> change;
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {"group 1", [](PolicyParameters& p) { p.group = 1; }},
      {"group 2", [](PolicyParameters& p) { p.group = 2; }},
      {"first group 3 of 4", [](PolicyParameters& p) { p.group = 1, p.first_group = 3; }},
      {"keep attention's context", [](PolicyParameters& p) { p.keep = Keep::input_context; }},
      {"keep attention", [](PolicyParameters& p) { p.keep = Keep::input_attention; }},
      {"keep everything", [](PolicyParameters& p) { p.keep = Keep::everything; }},
      {"checkpoint every 2", [](PolicyParameters& p) { p.group = 1, p.checkpoint_every = 2; }},
      {"checkpoint every 3, groups", [](PolicyParameters& p) { p.group = 2, p.checkpoint_every = 3; }},
      {"activations in dram", [](PolicyParameters& p) { p.activations = TierKind::dram; }},
      {"everything kept in dram, groups of 2",
       [](PolicyParameters& p) { p.group = 2, p.keep = Keep::everything, p.activations = TierKind::dram; }},
      {"first layers keep everything in dram",
       [](PolicyParameters& p) {
         p.first_layers = 2, p.first_keep = Keep::everything, p.first_activations = TierKind::dram;
       }},
      {"first layers keep all in hbm, the others attention in dram, groups of 2",
       [](PolicyParameters& p) {
         p.group = 2, p.keep = Keep::input_attention, p.activations = TierKind::dram;
         p.first_layers = 3, p.first_keep = Keep::everything;
       }},
      {"first layer in dram before blocks of 2",
       [](PolicyParameters& p) {
         p.checkpoint_every = 2, p.first_layers = 1, p.first_keep = Keep::input_attention;
         p.first_activations = TierKind::dram;
       }},
      {"levels by layer, the last ones in hbm as the ring of those in dram, groups of 2",
       [](PolicyParameters& p) {
         p.group = 2;
         p.keep_layers = {{1, 3, 0, Keep::everything, TierKind::dram},
                          {1, 3, 1, Keep::input, TierKind::dram},
                          {4, -1, 0, Keep::input_attention, TierKind::hbm}};
       }},
      {"embedding and head resident, sums travel two layers ahead",
       [](PolicyParameters& p) {
         p.group = 1, p.resident_edges = true, p.gradient_sums = TierKind::dram, p.gradient_slots = 3;
       }},
      {"optimizer at the end", [](PolicyParameters& p) { p.optimizer_time = OptimizerTime::end; }},
      {"optimizer on the gpu", [](PolicyParameters& p) { p.optimizer_place = OptimizerPlace::gpu; }},
      {"gradients wait in hbm", [](PolicyParameters& p) { p.gradients = TierKind::hbm; }},
      {"sums wait in dram", [](PolicyParameters& p) { p.group = 1, p.gradient_sums = TierKind::dram; }},
      {"one copy lane, tensor bursts, 3 buffers",
       [](PolicyParameters& p) {
         p.copy_lanes = CopyLanes::shared, p.burst = BurstKind::tensor, p.weight_buffers = 3;
       }},
      {"two layers resident", [](PolicyParameters& p) { p.resident_weights = 2; }},
      {"all weights resident", [](PolicyParameters& p) { p.resident_weights = -1; }},
      {"one optimizer thread", [](PolicyParameters& p) { p.optimizer_threads = 1; }},
      {"uploads from copies", [](PolicyParameters& p) { p.group = 1, p.upload_copies = true; }},
      {"states and gradients on nvme, one slot",
       [](PolicyParameters& p) { p.nvme_states = -1, p.nvme_slots = 1, p.gradients = TierKind::nvme; }},
      {"one layer in hbm, two on nvme with their weights",
       [](PolicyParameters& p) { p.group = 2, p.resident_states = 1, p.nvme_states = 2, p.nvme_weights = 2; }},
      {"attention kept on nvme, sums there too, groups of 1",
       [](PolicyParameters& p) {
         p.group = 1, p.keep = Keep::input_attention, p.activations = TierKind::nvme, p.activation_slots = 1;
         p.gradient_sums = TierKind::nvme, p.gradient_slots = 1;
       }},
      {"everything on nvme, groups of 2",
       [](PolicyParameters& p) {
         p.group = 2, p.nvme_states = p.nvme_weights = -1, p.gradients = p.gradient_sums = TierKind::nvme;
         p.keep = Keep::everything, p.activations = TierKind::nvme, p.activation_slots = 3;
       }},
      {"levels by layer in all three tiers",
       [](PolicyParameters& p) {
         p.keep_layers = {{1, 2, 0, Keep::everything, TierKind::nvme},
                          {2, 3, 1, Keep::input, TierKind::dram},
                          {4, -1, 0, Keep::input_attention, TierKind::hbm}};
       }},
      {"blocks of 2 on nvme behind a first layer in dram, sums on nvme, the last group smaller",
       [](PolicyParameters& p) {
         p.group = 1, p.first_group = 3, p.checkpoint_every = 2, p.activations = TierKind::nvme;
         p.first_layers = 1, p.first_keep = Keep::input_attention, p.first_activations = TierKind::dram;
         p.gradient_sums = TierKind::nvme;
       }},
      {"weights on nvme alone", [](PolicyParameters& p) { p.nvme_weights = -1; }},
      {"waits per buffer", [](PolicyParameters& p) { p.group = 1, p.host_waits = HostWaits::per_buffer; }},
  };
  return all;
}

void expect_all_agree(const Model& model, const Numerics& numerics) {
  PolicyInput in = small::input(model, "penstock");
  in.parameters.numerics = numerics;
  const RunBits reference = run_bits(in, kSteps);
  ASSERT_EQ(reference.losses.size(), kSteps);
  // Untrained, every byte is equally likely: log(256) = 5.545 up to the noise of random weights.
  EXPECT_NEAR(reference.losses.front(), std::log(256.0), 0.1);
  EXPECT_NE(reference.losses[3], reference.losses[4]);
  EXPECT_EQ(reference.balances.size(), balances(model.config) ? kSteps : 0);
  for (const Variant& variant : variants()) {
    PolicyInput other = in;
    variant.change(other.parameters);
    const RunBits bits = run_bits(other, kSteps);
    EXPECT_EQ(bits.losses, reference.losses) << variant.name;
    EXPECT_EQ(bits.norms, reference.norms) << variant.name;
    EXPECT_EQ(bits.balances, reference.balances) << variant.name;
    EXPECT_EQ(bits.states, reference.states) << variant.name;
  }
}

TEST(SchedulesAgree, Llama) { expect_all_agree(small::llama(), {}); }
TEST(SchedulesAgree, Qwen2WithTiedEmbeddings) { expect_all_agree(small::qwen2_tied(), {}); }
TEST(SchedulesAgree, Qwen3) { expect_all_agree(small::qwen3(), {}); }

TEST(SchedulesAgree, DenseLayersAndExperts) { expect_all_agree(small::experts(), {}); }

// What each layer adds travels with the boundaries, through every tier, and a forward that is made again counts once.
Model balanced_experts() {
  ModelConfig config = small::experts().config;
  config.experts.balance = 0.5;
  return make_model(config);
}
TEST(SchedulesAgree, ExpertsWithTheLoadBalancingLoss) { expect_all_agree(balanced_experts(), {}); }

TEST(SchedulesAgree, MasterAndCopyWithFp32Link) {
  Numerics numerics;
  numerics.states = StateFormat::master_and_copy;
  numerics.gradient_link = ElementType::fp32;
  expect_all_agree(small::qwen2_tied(), numerics);
}
TEST(SchedulesAgree, Bf16StatesAndSums) {
  Numerics numerics;
  numerics.states = StateFormat::bf16;
  numerics.moments = ElementType::bf16;
  numerics.gradient_sum = ElementType::bf16;
  expect_all_agree(small::llama(), numerics);
}

/// Every preset, its numerics overridden alike.
TEST(SchedulesAgree, Presets) {
  for (const Model& model :
       {small::llama(), small::qwen2_tied(), small::qwen3(), small::experts(), balanced_experts()}) {
    const RunBits reference = run_bits(small::input(model, "penstock"), kSteps);
    for (const PresetInfo& preset : presets()) {
      PolicyInput in = small::input(model, preset.name);
      in.parameters.numerics = Numerics{};
      if (in.parameters.optimizer_time == OptimizerTime::backward) in.parameters.optimizer_time = OptimizerTime::end;
      EXPECT_EQ(run_bits(in, kSteps), reference) << preset.name << " " << model.config.name;
    }
  }
}

/// Sums on the host are other numerics (each micro-batch is rounded): the schedules that have them agree among
/// themselves.
TEST(SchedulesAgree, SumsOnTheHost) {
  PolicyInput in = small::input(small::qwen2_tied(), "megatrain");
  in.parameters.numerics = Numerics{};
  in.parameters.numerics.sum_on_host = true;
  const RunBits reference = run_bits(in, kSteps);
  for (const PresetInfo& preset : presets()) {
    PolicyInput other = small::input(small::qwen2_tied(), preset.name);
    other.parameters.numerics = in.parameters.numerics;
    other.parameters.gradient_sums = TierKind::hbm;  // sums do not travel when they are made on the host
    other.parameters.gradients = TierKind::dram;     // and wait where they are
    if (other.parameters.resident_weights == -1 || other.parameters.optimizer_time == OptimizerTime::backward) continue;
    EXPECT_EQ(run_bits(other, kSteps), reference) << preset.name;
  }
}

/// Without clipping the optimizer may run as gradients land; the numbers are those of a serial step without clipping.
TEST(SchedulesAgree, OptimizerInBackward) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.numerics.clip = false;
  in.parameters.optimizer_time = OptimizerTime::end;
  const RunBits reference = run_bits(in, kSteps);
  in.parameters.optimizer_time = OptimizerTime::backward;
  EXPECT_EQ(run_bits(in, kSteps), reference);
}

/// Other seeds give other numbers: the comparisons above could fail.
TEST(SchedulesAgree, FingerprintsTellRunsApart) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in, 8);
  run.training().load(*random_states(3));
  run.training().run(run.options(kSteps));
  const RunBits reference = run_bits(in, kSteps);
  EXPECT_NE(run.training().states().fingerprint(), reference.states);
  EXPECT_NE(run.bits().losses, reference.losses);
}

}  // namespace
}  // namespace penstock::exec
