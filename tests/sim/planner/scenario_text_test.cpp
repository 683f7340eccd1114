// A plan written as a scenario reads back as the same plan.
#include "sim/planner/scenario_text.h"

#include <gtest/gtest.h>

#include "shared/files.h"
#include "shared/scenario/policy_toml.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

Candidate unusual() {
  Candidate plan{5, preset_parameters("penstock")};
  PolicyParameters& p = plan.parameters;
  p.group = 4;
  p.first_group = 8;
  p.weight_buffers = 3;
  p.burst = BurstKind::fixed;
  p.burst_bytes = 12345678;
  p.copy_lanes = CopyLanes::shared;
  p.resident_weights = 7;
  p.resident_states = 2;
  p.nvme_states = 4;
  p.nvme_weights = -1;
  p.nvme_slots = 3;
  p.keep = Keep::input_attention;
  p.checkpoint_every = 2;
  p.activations = TierKind::dram;
  p.first_layers = 11;
  p.first_keep = Keep::everything;
  p.first_activations = TierKind::dram;
  p.activation_slots = 5;
  p.gradients = TierKind::hbm;
  p.gradient_sums = TierKind::dram;
  p.gradient_slots = 9;
  p.numerics.moments = ElementType::bf16;
  p.numerics.clip = false;
  p.numerics.chunking = {4096, 512};
  p.optimizer_place = OptimizerPlace::gpu;
  p.optimizer_time = OptimizerTime::backward;
  p.optimizer_threads = 3;
  p.host_pass_bytes_per_parameter = 2.5;
  p.upload_copies = true;
  p.host_waits = HostWaits::per_layer;
  return plan;
}

bool same(const Candidate& a, const Candidate& b) { return !(a < b) && !(b < a); }

TEST(ScenarioText, ReadsBackAsThePlan) {
  const TemporaryFolder folder;
  const std::filesystem::path source = source_folder() / "scenarios/qwen2.5-7b-h200.toml";
  const std::vector<std::string> overrides{"workload.sequences=80", "machine.dram=\"96 GiB\"",
                                           "run.learning_rate=1e-3"};
  for (const Candidate& plan : {unusual(), Candidate{16, preset_parameters("resident")}}) {
    const std::filesystem::path target = folder.path() / "plan.toml";
    write_text_file(target, scenario_text(read_scenario_document(source, overrides), source, target, plan));
    const Scenario written = read_scenario(target), original = read_scenario(source, overrides);
    EXPECT_TRUE(same({written.micro_batch, written.policy}, plan));
    EXPECT_EQ(written.policy.name, plan.parameters.name);
    EXPECT_TRUE(written.model.config == original.model.config);
    EXPECT_EQ(written.machine.dram_bytes, std::int64_t{96} << 30);
    EXPECT_EQ(written.sequences, 80);
    EXPECT_EQ(written.run.steps, original.run.steps);
    EXPECT_EQ(written.run.learning_rate, 1e-3);
  }
}

TEST(ScenarioText, RandomDataIsNoFile) {
  const TemporaryFolder folder;
  const std::filesystem::path source = source_folder() / "scenarios/quickstart.toml", target = folder.path() / "p.toml";
  const auto data = [&](const std::string& value) {
    const TomlDocument document = read_scenario_document(source, {"data.file=\"" + value + "\""});
    write_text_file(target, scenario_text(document, source, target, {4, preset_parameters("resident")}));
    return read_scenario(target).run.data.file;
  };
  EXPECT_EQ(data("random"), folder.path() / "random");  // the word beside the scenario, wherever that is
  EXPECT_EQ(std::filesystem::weakly_canonical(data("corpus/random")),
            std::filesystem::weakly_canonical(source_folder() / "scenarios/corpus/random"));
}

TEST(PolicyText, EveryPresetReadsBack) {
  for (const PresetInfo& preset : presets()) {
    const PolicyParameters parameters = preset_parameters(preset.name);
    const TomlDocument document = parse_toml(policy_text(parameters), "plan.toml");
    EXPECT_TRUE(same({1, read_policy(document)}, {1, parameters})) << preset.name;
  }
}

}  // namespace
}  // namespace penstock::sim
