#include "sim/planner/sensitivity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "shared/ir/host_pass_names.h"
#include "sim/cost/rates.h"
#include "sim/planner/open_policy.h"
#include "tests/shared/temporary_folder.h"
#include "tests/sim/planner/small_scenario.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

constexpr double kFactor = 1.1;

/// An H200 as calibrated: with tables of everything.
Machine calibrated() { return read_profile(source_folder() / "scenarios/measured/h200/2026-11-29/profile.json"); }

/// Kernels of all passes of a decoder layer and of the head, some at shapes that were calibrated and some at others.
std::vector<Kernel> kernels() {
  const Scenario scenario = read_scenario(source_folder() / "scenarios/qwen2.5-3b-h200.toml");
  std::vector<Kernel> all;
  for (const BatchShape batch : {BatchShape{16, 1024}, BatchShape{3, 1500}})
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::loss})
      for (const LayerKind kind : {LayerKind::decoder, LayerKind::head}) {
        if ((kind == LayerKind::head) != (pass == Pass::loss)) continue;
        const LayoutOptions layout{Keep::everything, {0, 4096}, 0};
        for (const Kernel& kernel : template_kernels(scenario.model, kind, pass, batch, layout, true, true))
          all.push_back(kernel);
      }
  return all;
}

void expect_scaled(const Machine& faster, const Machine& machine, bool elementwise) {
  for (const Kernel& kernel : kernels()) {
    const KernelSeconds before = kernel_seconds(machine.gpu, kernel), after = kernel_seconds(faster.gpu, kernel);
    const double ratio = (kernel.kind == KernelKind::elementwise) == elementwise ? kFactor : 1;
    EXPECT_NEAR(before.burst / after.burst, ratio, 1e-9) << kernel.name();
    EXPECT_NEAR(before.sustained / after.sustained, ratio, 1e-9) << kernel.name();
  }
}

TEST(Sensitivity, AFasterGpuRunsItsMatmulsAndAttentionFasterInBurstsAndSustained) {
  const Machine machine = calibrated();
  expect_scaled(with_faster(machine, "matmul", kFactor), machine, false);
}

TEST(Sensitivity, FasterHbmRunsElementwiseKernelsFaster) {
  const Machine machine = calibrated();
  expect_scaled(with_faster(machine, "hbm", kFactor), machine, true);
}

TEST(Sensitivity, FasterDramRunsEveryPassOfTheHostFaster) {
  const Machine machine = calibrated(), faster = with_faster(machine, "dram", kFactor);
  ASSERT_FALSE(machine.cpu.passes.empty());
  for (const HostPassPoint& point : machine.cpu.passes)
    for (const int threads : {1, 5, point.threads}) {
      const HostPassCost before = host_pass_cost(machine.cpu, point.name, threads);
      const HostPassCost after = host_pass_cost(faster.cpu, point.name, threads);
      EXPECT_NEAR(before.seconds_per_byte / after.seconds_per_byte, kFactor, 1e-9) << point.name;
    }
  const HostPassCost unknown = host_pass_cost(faster.cpu, "no such pass", 4);
  EXPECT_NEAR(host_pass_cost(machine.cpu, "no such pass", 4).seconds_per_byte / unknown.seconds_per_byte, kFactor,
              1e-9);
}

TEST(Sensitivity, AFasterLinkCopiesEverySizeFaster) {
  const Machine machine = calibrated(), faster = with_faster(machine, "link", kFactor);
  for (const double bytes : {100.0, 1e5, 3e6, 1e9})
    EXPECT_NEAR(transfer_seconds(machine.link.h2d, bytes) / transfer_seconds(faster.link.h2d, bytes), kFactor, 1e-9);
}

TEST(Sensitivity, ThereIsNoOtherPart) { EXPECT_THROW(with_faster(calibrated(), "cpu", kFactor), std::logic_error); }

double gain_of(const std::vector<Sensitivity>& all, const std::string& part) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Sensitivity& one) { return one.part == part; });
  return found == all.end() ? -1 : found->gain;
}

// Everything on the GPU, recomputing: nothing but compute. 10 % more of its rate is worth what matmuls and attention
// are of the step: over 8 %, and nothing else is worth anything but HBM's elementwise rest.
TEST(Sensitivity, OfAComputeBoundStepOnAProfileIsThatOfItsMatmuls) {
  const Scenario scenario = read_scenario(
      source_folder() / "scenarios/qwen2.5-3b-h200.toml",
      {"machine.profile=\"" + (source_folder() / "scenarios/measured/h200/2026-11-29/profile.json").string() + "\"",
       "policy.name=resident", "workload.sequences=32", "policy.loss_chunk_tokens=4096"});
  const std::vector<Sensitivity> all = sensitivities(make_schedule(scenario.policy_input()), scenario.machine);
  EXPECT_GT(gain_of(all, "matmul"), 0.075);
  EXPECT_GT(gain_of(all, "hbm"), 0.003);
  EXPECT_NEAR(gain_of(all, "matmul") + gain_of(all, "hbm"), 0.1, 0.012);
  EXPECT_NEAR(gain_of(all, "link"), 0, 1e-4);
  EXPECT_NEAR(gain_of(all, "dram"), 0, 1e-4);
}

// The serial AdamW of this preset is the largest part of a small step, and the host's passes are DRAM's.
TEST(Sensitivity, OfASerialOptimizerOnAProfileIsThatOfDram) {
  const Scenario scenario = read_scenario(
      source_folder() / "scenarios/qwen2.5-0.5b-h200.toml",
      {"machine.profile=\"" + (source_folder() / "scenarios/measured/h200/2026-11-29/profile.json").string() + "\"",
       "policy.name=zero3-offload", "workload.sequences=16", "policy.loss_chunk_tokens=4096"});
  const std::vector<Sensitivity> all = sensitivities(make_schedule(scenario.policy_input()), scenario.machine);
  EXPECT_GT(gain_of(all, "dram"), 0.03);
  EXPECT_GT(gain_of(all, "dram"), gain_of(all, "hbm"));
}

/// Two channels of DDR4 under a GPU: copies and AdamW share what they have.
const char* const kSharedDram = R"(
name = "RTX 4070 Ti SUPER, Ryzen 5600, DDR4"
[gpu]
name = "RTX 4070 Ti SUPER"
hbm = "16 GiB"
hbm_bandwidth = "672 GB/s"
matmul = "80 TFLOP/s"
launch = "4 us"
[dram]
capacity = "128 GB"
bandwidth = "38 GB/s"
[cpu]
cores = 6
adamw = "1.4 Gparam/s"
host_op = "10 us"
[link]
h2d = "24 GB/s"
d2h = "24 GB/s"
latency = "8 us"
)";

TEST(Sensitivity, IsNeverNegativeThoughFasterCopiesTakeDramFromAdamW) {
  const TemporaryFolder folder;
  folder.write("machine.toml", kSharedDram);
  const std::string config = (source_folder() / "scenarios/models/mistral-7b-v0.3.json").string();
  const Scenario scenario = parse_scenario(
      "[model]\nconfig = \"" + config + "\"\n[machine]\nhardware = \"machine.toml\"\n" +
          "[workload]\nsequence_length = 1024\nsequences = 16\nmicro_batch = 8\n"
          "[policy]\nname = \"penstock\"\nfirst_layers = 24\nfirst_keep = \"everything\"\n"
          "first_activations = \"dram\"\nresident_states = 3\ngradient_slots = 1\nmlp_chunk_tokens = 2048\n"
          "[run]\ndeterministic = false\n",
      "shared.toml", folder.path(), {});
  const std::vector<Sensitivity> all = sensitivities(make_schedule(scenario.policy_input()), scenario.machine);
  double lowest = 0;
  for (const Sensitivity& one : all) {
    EXPECT_GE(one.gain, 0) << one.part;
    EXPECT_GE(one.gain, one.unpaced_gain) << one.part;
    lowest = std::min(lowest, one.unpaced_gain);
  }
  EXPECT_LT(lowest, -1e-4);  // else this machine shows nothing
}

TEST(Sensitivity, IsNeverNegativeForAnyPresetOnTightMachines) {
  for (const PresetInfo& preset : presets()) {
    Scenario scenario = test::small_scenario(small::llama());
    scenario.policy = preset_parameters(preset.name);
    scenario.machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
    for (const double dram : {40e6, 100e6, 400e6}) {
      scenario.machine.cpu.dram_bytes_per_second = dram;
      for (const Sensitivity& one : sensitivities(make_schedule(scenario.policy_input()), scenario.machine))
        EXPECT_GE(one.gain, 0) << preset.name << " " << one.part;
    }
  }
}

}  // namespace
}  // namespace penstock::sim
