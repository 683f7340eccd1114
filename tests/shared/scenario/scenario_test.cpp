#include "shared/scenario/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/error.h"
#include "shared/model/library_workspace.h"
#include "shared/scenario/policy_toml.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

const std::filesystem::path kCatalogue = source_folder() / "scenarios";

const std::string kModel =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3,
"num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 512})";

const std::string kHardware = R"(name = "small"
[gpu]
name = "G"
hbm = "24 GiB"
hbm_bandwidth = "1008 GB/s"
matmul = "145 TFLOP/s"
launch = "4 us"
[dram]
capacity = "128 GiB"
bandwidth = "70 GB/s"
[cpu]
cores = 16
host_op = "10 us"
[link]
h2d = "25 GB/s"
d2h = "26 GB/s"
latency = "8 us"
)";

const std::string kScenario = R"([model]
config = "models/m.json"
[machine]
hardware = "hardware/h.toml"
[workload]
sequence_length = 128
sequences = 8
micro_batch = 2
[policy]
name = "penstock"
[run]
steps = 20
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class ScenarioFile : public testing::Test {
 protected:
  ScenarioFile() {
    folder_.write("models/m.json", kModel);
    folder_.write("hardware/h.toml", kHardware);
  }

  Scenario read(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return read_scenario(folder_.write("s.toml", text), overrides);
  }
  /// The scenario with more keys in [policy].
  PolicyParameters policy(const std::string& keys) {
    return read(replaced(kScenario, "\"penstock\"\n", "\"penstock\"\n" + keys + "\n")).policy;
  }
  RunOptions run(const std::string& keys) { return read(kScenario + keys).run; }

  /// The message, without the folder.
  std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::string what = error_text([&] { read(text, overrides); });
    for (auto at = what.find(folder_.path().string()); at != std::string::npos; at = what.find(folder_.path().string()))
      what.erase(at, folder_.path().string().size() + 1);
    return what;
  }
  std::string policy_refusal(const std::string& keys) {
    return refusal(replaced(kScenario, "\"penstock\"\n", "\"penstock\"\n" + keys + "\n"));
  }
  std::string run_refusal(const std::string& keys) { return refusal(kScenario + keys); }

  TemporaryFolder folder_;
};

TEST_F(ScenarioFile, ReadsModelMachineWorkloadAndText) {
  const Scenario scenario = read(kScenario);
  EXPECT_EQ(scenario.name, "s");
  EXPECT_EQ(scenario.text, kScenario);
  EXPECT_EQ(scenario.model.config.name, "m");
  EXPECT_EQ(scenario.model.layer_count(), 5);
  EXPECT_EQ(scenario.machine.name, "small");
  EXPECT_EQ(scenario.sequence_length, 128);
  EXPECT_EQ(scenario.sequences, 8);
  EXPECT_EQ(scenario.micro_batch, 2);
  EXPECT_EQ(scenario.policy.name, "penstock");
  EXPECT_EQ(scenario.run.steps, 20);
  EXPECT_EQ(scenario.run.backend, "auto");
}

TEST_F(ScenarioFile, AModelsFolderStandsForItsConfig) {
  folder_.write("models/own/config.json", kModel);
  const Scenario scenario = read(replaced(kScenario, "models/m.json", "models/own"));
  EXPECT_EQ(scenario.model_file, folder_.path() / "models/own/config.json");
  EXPECT_EQ(scenario.model.config.name, "own");
  EXPECT_NE(std::find(scenario.files.begin(), scenario.files.end(), scenario.model_file), scenario.files.end());
  EXPECT_EQ(refusal(replaced(kScenario, "models/m.json", "models")),
            "s.toml:2: [model] config: there is no config.json in the folder models; a model from Hugging Face has one "
            "beside its weights");
}

TEST_F(ScenarioFile, MachineFiguresCanBeOverridden) {
  const Scenario scenario = read(
      replaced(kScenario, "[workload]", "hbm = \"16 GB\"\ndram = \"64 GiB\"\nnvme = \"2 TB\"\ncores = 8\n[workload]"));
  EXPECT_EQ(scenario.machine.gpu.hbm_bytes, 16'000'000'000);
  EXPECT_EQ(scenario.machine.dram_bytes, 64LL << 30);
  EXPECT_EQ(scenario.policy_input().nvme_bytes, 2'000'000'000'000);
  EXPECT_EQ(scenario.machine.cpu.cores, 8);
}

TEST_F(ScenarioFile, WhatIsKeptOfTheMemoryCanBeOverridden) {
  const Scenario scenario = read(kScenario, {"machine.reserve=4 GiB", "machine.context=\"0 B\""});
  EXPECT_EQ(scenario.policy_input().dram_bytes, 124LL << 30);
  EXPECT_EQ(scenario.policy_input().hbm_bytes, 24LL << 30);
  EXPECT_MENTIONS(refusal(kScenario, {"machine.reserve=128 GiB"}),
                  "[machine] reserve: 128.00 GiB is kept of dram = 128.00 GiB, which leaves nothing; expected less");
  EXPECT_MENTIONS(refusal(kScenario, {"machine.reserve=4 GiB", "machine.dram=3 GiB"}), "[machine] reserve: 4.00 GiB");
  EXPECT_MENTIONS(refusal(kScenario, {"machine.context=25 GiB"}), "[machine] context: 25.00 GiB is kept of hbm");
  EXPECT_MENTIONS(refusal(kScenario, {"machine.reserve=4"}), "machine.reserve");
}

TEST_F(ScenarioFile, PolicyInputHasTheMachinesCapacities) {
  const Scenario scenario = read(kScenario);
  const PolicyInput input = scenario.policy_input();
  EXPECT_EQ(input.model.parameters, scenario.model.parameters);
  EXPECT_EQ(input.sequence_length, 128);
  EXPECT_EQ(input.sequences, 8);
  EXPECT_EQ(input.micro_batch, 2);
  const TierCapacities usable = usable_memory(scenario.machine);
  EXPECT_EQ(input.hbm_bytes, usable.hbm);
  EXPECT_EQ(input.dram_bytes, usable.dram);
  EXPECT_LT(input.hbm_bytes, 24LL << 30);  // a context is kept
  EXPECT_LT(input.dram_bytes, 128LL << 30);
  EXPECT_EQ(input.host_threads, 16);
  EXPECT_EQ(input.parameters.name, "penstock");
  EXPECT_EQ(input.library_bytes, library_workspace_bytes(scenario.model, BatchShape{2, 128}, true));
  EXPECT_GE(input.library_bytes, kLibraryWorkspaceBytes);
}

TEST_F(ScenarioFile, TheHostNeedsNoLibraryWorkspace) {
  folder_.write("hardware/h.toml", replaced(kHardware, "launch = \"4 us\"", "launch = \"4 us\"\nis_host = true"));
  EXPECT_EQ(read(kScenario).policy_input().library_bytes, 0);
}

// --- [policy] -----------------------------------------------------------------------------------------------------

TEST_F(ScenarioFile, EveryPolicyParameterCanBeOverridden) {
  const PolicyParameters p = policy(R"(group = 2
first_group = 4
weight_buffers = 3
burst = "4 MiB"
copy_lanes = "shared"
resident_weights = 1
resident_states = 2
nvme_states = "all"
nvme_weights = 3
nvme_slots = 4
keep = "input_attention"
checkpoint_every = 4
first_layers = 3
first_keep = "everything"
first_activations = "dram"
activations = "dram"
activation_slots = 5
gradients = "hbm"
gradient_sums = "dram"
gradient_slots = 6
states = "master_and_copy"
moments = "bf16"
gradient_sum = "bf16"
gradient_link = "fp32"
sum_on_host = true
clip = false
mlp_chunk_tokens = 64
loss_chunk_tokens = 32
optimizer_place = "gpu"
optimizer_when = "backward"
optimizer_threads = 7
recompute_loads = 1
forward_twice = true
host_pass_bytes_per_parameter = 10.5
upload_copies = true
host_waits = "per_buffer"
)");
  EXPECT_EQ(p.group, 2);
  EXPECT_EQ(p.first_group, 4);
  EXPECT_EQ(p.weight_buffers, 3);
  EXPECT_EQ(p.burst, BurstKind::fixed);
  EXPECT_EQ(p.burst_bytes, 4 << 20);
  EXPECT_EQ(p.copy_lanes, CopyLanes::shared);
  EXPECT_EQ(p.resident_weights, 1);
  EXPECT_EQ(p.resident_states, 2);
  EXPECT_EQ(p.nvme_states, -1);
  EXPECT_EQ(p.nvme_weights, 3);
  EXPECT_EQ(p.nvme_slots, 4);
  EXPECT_EQ(p.keep, Keep::input_attention);
  EXPECT_EQ(p.checkpoint_every, 4);
  EXPECT_EQ(p.first_layers, 3);
  EXPECT_EQ(p.first_keep, Keep::everything);
  EXPECT_EQ(p.first_activations, TierKind::dram);
  EXPECT_EQ(p.activations, TierKind::dram);
  EXPECT_EQ(p.activation_slots, 5);
  EXPECT_EQ(p.gradients, TierKind::hbm);
  EXPECT_EQ(p.gradient_sums, TierKind::dram);
  EXPECT_EQ(p.gradient_slots, 6);
  EXPECT_EQ(p.numerics.states, StateFormat::master_and_copy);
  EXPECT_EQ(p.numerics.moments, ElementType::bf16);
  EXPECT_EQ(p.numerics.gradient_sum, ElementType::bf16);
  EXPECT_EQ(p.numerics.gradient_link, ElementType::fp32);
  EXPECT_TRUE(p.numerics.sum_on_host);
  EXPECT_FALSE(p.numerics.clip);
  EXPECT_EQ(p.numerics.chunking.mlp_tokens, 64);
  EXPECT_EQ(p.numerics.chunking.loss_tokens, 32);
  EXPECT_EQ(p.optimizer_place, OptimizerPlace::gpu);
  EXPECT_EQ(p.optimizer_time, OptimizerTime::backward);
  EXPECT_EQ(p.optimizer_threads, 7);
  EXPECT_EQ(p.recompute_loads, 1);
  EXPECT_TRUE(p.forward_twice);
  EXPECT_EQ(p.host_pass_bytes_per_parameter, 10.5);
  EXPECT_TRUE(p.upload_copies);
  EXPECT_EQ(p.host_waits, HostWaits::per_buffer);
}

TEST_F(ScenarioFile, EveryChoiceHasItsName) {
  EXPECT_EQ(policy("keep = \"input\"").keep, Keep::input);
  EXPECT_EQ(policy("keep = \"everything\"").keep, Keep::everything);
  EXPECT_EQ(policy("copy_lanes = \"per_direction\"").copy_lanes, CopyLanes::per_direction);
  EXPECT_EQ(policy("activations = \"hbm\"").activations, TierKind::hbm);
  EXPECT_EQ(policy("gradients = \"nvme\"").gradients, TierKind::nvme);
  EXPECT_EQ(policy("activations = \"nvme\"").activations, TierKind::nvme);
  EXPECT_MENTIONS(policy_refusal("activations = \"disk\""), "[policy] activations");
  EXPECT_EQ(policy("gradients = \"dram\"").gradients, TierKind::dram);
  EXPECT_EQ(policy("states = \"planes\"").numerics.states, StateFormat::planes);
  EXPECT_EQ(policy("states = \"bf16\"").numerics.states, StateFormat::bf16);
  EXPECT_EQ(policy("optimizer_place = \"host\"").optimizer_place, OptimizerPlace::host);
  EXPECT_EQ(policy("optimizer_when = \"end\"").optimizer_time, OptimizerTime::end);
  EXPECT_EQ(policy("optimizer_when = \"next_forward\"").optimizer_time, OptimizerTime::next_forward);
  EXPECT_EQ(policy("optimizer_time = \"end\"").optimizer_time, OptimizerTime::end);
  EXPECT_EQ(policy("host_waits = \"none\"").host_waits, HostWaits::none);
  EXPECT_EQ(policy("host_waits = \"per_layer\"").host_waits, HostWaits::per_layer);
  EXPECT_EQ(policy("host_waits = \"on_compute\"").host_waits, HostWaits::on_compute);
  EXPECT_EQ(policy("burst = \"layer\"").burst, BurstKind::layer);
  EXPECT_EQ(policy("burst = \"tensor\"").burst, BurstKind::tensor);
}

TEST_F(ScenarioFile, AllMeansAll) {
  EXPECT_EQ(policy("group = \"all\"").group, 0);
  EXPECT_EQ(policy("resident_weights = \"all\"").resident_weights, -1);
  EXPECT_EQ(policy("resident_states = \"all\"").resident_states, -1);
}

TEST_F(ScenarioFile, PolicyErrorsNameLineAndKey) {
  EXPECT_EQ(policy_refusal("weight_bufers = 3"),
            "s.toml:11: [policy] weight_bufers: is not a key of this table; did you mean weight_buffers?");
  EXPECT_EQ(policy_refusal("group = 0"),
            "s.toml:11: [policy] group: expected a whole number from 1 to 1000000, found 0");
  EXPECT_MENTIONS(policy_refusal("group = \"some\""), "expected \"all\" or a whole number");
  // -1 is how "all" is kept, not how it is written.
  EXPECT_EQ(policy_refusal("nvme_states = -1"),
            "s.toml:11: [policy] nvme_states: expected a whole number from 0 to 4096, found -1");
  EXPECT_MENTIONS(policy_refusal("resident_states = \"any\""), "expected \"all\" or a whole number from 0 to 4096");
  EXPECT_EQ(
      policy_refusal("first_keep = \"everything\""),
      "s.toml:11: [policy] first_keep: counts only with first_layers, but first_layers is not given; give it too");
  EXPECT_MENTIONS(policy_refusal("first_activations = \"dram\""), "but first_layers is not given");
  EXPECT_MENTIONS(policy_refusal("group = 1.5"), "found 1.5");
  EXPECT_EQ(
      policy_refusal("keep = \"all\""),
      "s.toml:11: [policy] keep: expected one of \"input\", \"input_context\", \"input_attention\", \"everything\", found \"all\"");
  EXPECT_MENTIONS(policy_refusal("burst = 4194304"), "expected \"layer\", \"tensor\" or a size");
  EXPECT_MENTIONS(policy_refusal("burst = \"4 MB/s\""), "neither \"layer\" nor \"tensor\"");
  EXPECT_MENTIONS(policy_refusal("burst = \"1 B\""), "expected at least 4 KiB");
  EXPECT_MENTIONS(policy_refusal("clip = 0"), "expected true or false, found 0");
  EXPECT_MENTIONS(policy_refusal("host_pass_bytes_per_parameter = -1"), "found -1");
  EXPECT_MENTIONS(policy_refusal("optimizer_when = \"end\"\noptimizer_time = \"end\""), "keep one of the two");
  const std::string no_preset = refusal(replaced(kScenario, "\"penstock\"", "\"pemstock\""));
  EXPECT_MENTIONS(no_preset, "s.toml:10: [policy] name: ");
  EXPECT_MENTIONS(no_preset, "pemstock");
  EXPECT_MENTIONS(no_preset, "megatrain");  // the list of those there are
}

TEST_F(ScenarioFile, WithoutPolicyItIsPenstock) {
  EXPECT_EQ(read(replaced(kScenario, "[policy]\nname = \"penstock\"\n", "")).policy.name, "penstock");
}

// --- [run] --------------------------------------------------------------------------------------------------------

TEST_F(ScenarioFile, ReadsRunOptionsWhereTheyStoodOnce) {
  const RunOptions options = run(R"(warmup_steps = 3
seed = 7
backend = "host"
deterministic = false
learning_rate = 1e-3
learning_rate_warmup_steps = 5
beta1 = 0.8
beta2 = 0.99
epsilon = 1e-6
weight_decay = 0
max_norm = 0.5
data = "text"
weights = "/w/model.safetensors"
link_h2d = "1 GB/s"
link_d2h = "500 MB/s"
)");
  EXPECT_EQ(options.warmup_steps, 3);
  EXPECT_EQ(options.init.seed, 7u);
  EXPECT_EQ(options.data.seed, 7u);
  EXPECT_EQ(options.backend, "host");
  EXPECT_FALSE(options.deterministic);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.learning_rate_warmup_steps, 5);
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.beta2, 0.99);
  EXPECT_EQ(options.epsilon, 1e-6);
  EXPECT_EQ(options.weight_decay, 0);
  EXPECT_EQ(options.max_norm, 0.5);
  EXPECT_EQ(options.data.file, folder_.path() / "text");    // relative to the scenario
  EXPECT_EQ(options.init.weights, "/w/model.safetensors");  // absolute
  EXPECT_EQ(options.link_h2d_bytes_per_second, 1e9);
  EXPECT_EQ(options.link_d2h_bytes_per_second, 5e8);
}

TEST_F(ScenarioFile, WarmupLeavesAStepToMeasure) {
  EXPECT_EQ(read(replaced(kScenario, "steps = 20", "steps = 1")).run.warmup_steps, 0);  // the default of 2 gives way
  EXPECT_MENTIONS(run_refusal("warmup_steps = 20"), "s.toml:13: [run] warmup_steps: 20 leaves none of the 20 steps");
}

TEST_F(ScenarioFile, RunErrorsNameLineAndKey) {
  EXPECT_EQ(run_refusal("learning_rat = 1"),
            "s.toml:13: [run] learning_rat: is not a key of this table; did you mean learning_rate?");
  EXPECT_MENTIONS(run_refusal("link_h2d = \"1 GB\""), "expected a bandwidth with its unit");
  EXPECT_MENTIONS(run_refusal("link_h2d = 1"), "expected a bandwidth with its unit");
  EXPECT_MENTIONS(run_refusal("backend = \"gpu\""), "expected one of \"auto\", \"host\", \"cuda\"");
  EXPECT_MENTIONS(run_refusal("learning_rate = nan"), "learning_rate");
  EXPECT_MENTIONS(run_refusal("beta1 = 1"), "beta1");
  EXPECT_MENTIONS(run_refusal("seed = -1"), "seed");
  EXPECT_MENTIONS(run_refusal("data = \"\""), "expected a path");
}

// --- the other tables ---------------------------------------------------------------------------------------------

TEST_F(ScenarioFile, WorkloadIsChecked) {
  EXPECT_EQ(refusal(replaced(kScenario, "micro_batch = 2", "micro_batch = 3")),
            "s.toml:8: [workload] micro_batch: 3 does not divide sequences = 8; every micro-batch has the same size");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "micro_batch = 2", "micro_batch = 16")), "does not divide");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "micro_batch = 2", "micro_batch = 2\nchunk_tokens = 100")),
                  "s.toml:9: [workload] chunk_tokens: 100 cuts sequences of");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "micro_batch = 2", "micro_batch = 2\nchunk_tokens = -1")),
                  "expected a whole number from 0");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "sequences = 8", "sequences = 0")), "found 0");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "sequences = 8", "sequences = 100000000")), "found 100000000");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "sequence_length = 128", "sequence_length = -1")), "found -1");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "sequence_length = 128\n", "")), "sequence_length: is missing");
  const std::string absurd =
      replaced(replaced(kScenario, "sequences = 8", "sequences = 1000000"), "= 128", "= 16777216");
  EXPECT_MENTIONS(refusal(absurd), "absurdly many");
}

TEST_F(ScenarioFile, UnknownTablesAndKeysAreErrors) {
  EXPECT_EQ(refusal(kScenario + "[polcy]\n"), "s.toml:13: [polcy] is not a table of this file; did you mean policy?");
  EXPECT_MENTIONS(refusal("x = 1\n" + kScenario), "s.toml:1: x: stands before the first table");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "config =", "confg =")), "[model] config: is missing");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "[workload]", "ram = \"1 GB\"\n[workload]")), "did you mean dram?");
}

TEST_F(ScenarioFile, OtherLayersHaveTheWindowsOfTheirPlacesInTheModel) {
  folder_.write("models/m.json",
                replaced(replaced(kModel, "\"llama\"", "\"qwen2\", \"num_key_value_heads\": 4"), "\"vocab_size\"",
                         "\"use_sliding_window\": true, \"sliding_window\": 64, \"max_window_layers\": 1, "
                         "\"vocab_size\""));
  const ModelConfig config = read(kScenario).model.config;
  EXPECT_EQ(config.sliding_window, 64);
  std::vector<int> windows;  // all but the first
  for (int i = 1; i < static_cast<int>(config.decoder_layers); ++i) windows.push_back(i);
  EXPECT_EQ(config.window_layers, windows);
  const std::int64_t layers = config.decoder_layers;
  const ModelConfig deeper = read(kScenario, {"model.layers=" + std::to_string(layers + 2)}).model.config;
  windows.push_back(static_cast<int>(layers) + 1);  // the two behind are as the first two
  EXPECT_EQ(deeper.window_layers, windows);
  const ModelConfig one = read(kScenario, {"model.layers=1"}).model.config;
  EXPECT_EQ(one.sliding_window, 0);
  EXPECT_TRUE(one.window_layers.empty());
}

TEST_F(ScenarioFile, NotesWhatIsNoError) {
  EXPECT_TRUE(read(kScenario).notes.empty());
  EXPECT_EQ(read(replaced(kScenario, "sequence_length = 128", "sequence_length = 513")).notes.size(), 1u);
  folder_.write("models/m.json",
                replaced(kModel, "\"vocab_size\"",
                         "\"rope_scaling\": {\"type\": \"proportional\", \"factor\": 2}, \"vocab_size\""));
  ASSERT_EQ(read(kScenario).notes.size(), 1u);
  EXPECT_MENTIONS(read(kScenario).notes[0], "rope_type \"proportional\"");
}

TEST_F(ScenarioFile, FilesMustExist) {
  EXPECT_EQ(refusal(replaced(kScenario, "m.json", "n.json")),
            "s.toml:2: [model] config: there is no file models/n.json: No such file or directory; did you mean "
            "models/m.json?");
  EXPECT_EQ(refusal(replaced(kScenario, "h.toml", "i.toml")),
            "s.toml:4: [machine] hardware: there is no file hardware/i.toml: No such file or directory; did you mean "
            "hardware/h.toml?");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "hardware =", "profile =")), "is not JSON");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "hardware = \"hardware/h.toml\"", "")),
                  "hardware: is missing, and so is profile");
  EXPECT_MENTIONS(refusal(replaced(kScenario, "[workload]", "profile = \"p.json\"\n[workload]")),
                  "keep one of the two");
  EXPECT_THROW(read_scenario(folder_.path() / "none.toml"), InputError);
}

// --- overrides ----------------------------------------------------------------------------------------------------

TEST_F(ScenarioFile, TheCatalogueHasWhatIsNotBesideTheScenario) {
  for (const char* name :
       {"qwen2.5-7b", "qwen2.5-7b.json", "models/qwen2.5-7b.json", "scenarios/models/qwen2.5-7b.json"})
    EXPECT_EQ(read(replaced(kScenario, "models/m.json", name)).model.config.name, "qwen2.5-7b") << name;
  const Scenario scenario = read(kScenario, {"machine.hardware=gh200", "machine.software=deepspeed"});
  EXPECT_EQ(scenario.machine.name, read_hardware(kCatalogue / "hardware/gh200.toml").name);
  // Protected from outputs, as every file that was read.
  EXPECT_TRUE(std::any_of(scenario.files.begin(), scenario.files.end(), [](const std::filesystem::path& file) {
    return std::filesystem::equivalent(file, kCatalogue / "hardware/gh200.toml");
  }));
  // What is beside the scenario goes first.
  folder_.write("hardware/gh200.toml", kHardware);
  EXPECT_EQ(read(kScenario, {"machine.hardware=hardware/gh200.toml"}).machine.name, "small");
  EXPECT_MENTIONS(error_text([&] { read(kScenario, {"machine.hardware=rtx409"}); }),
                  "did you mean rtx4090 of the catalogue?");
  EXPECT_MENTIONS(error_text([&] { read(replaced(kScenario, "models/m.json", "qwen2.5-7")); }),
                  "did you mean qwen2.5-7b of the catalogue?");
}

TEST_F(ScenarioFile, OverridesReplaceAndAdd) {
  const Scenario scenario =
      read(kScenario, {"policy.name=megatrain", "policy.weight_buffers=4", "workload.sequences=16",
                       "run.learning_rate=2e-3", "machine.hbm=12 GiB", "policy.burst=\"tensor\""});
  EXPECT_EQ(scenario.policy.name, "megatrain");
  EXPECT_EQ(scenario.policy.weight_buffers, 4);
  EXPECT_EQ(scenario.policy.burst, BurstKind::tensor);
  EXPECT_EQ(scenario.sequences, 16);
  EXPECT_EQ(scenario.run.learning_rate, 2e-3);
  EXPECT_EQ(scenario.machine.gpu.hbm_bytes, 12LL << 30);
  EXPECT_EQ(scenario.text, kScenario);
}

TEST_F(ScenarioFile, GivenParametersAreFixed) {
  EXPECT_EQ(read(kScenario).fixed, std::set<std::string>{});
  EXPECT_EQ(read(kScenario, {"policy.keep=everything", "policy.optimizer_time=end", "policy.name=megatrain"}).fixed,
            (std::set<std::string>{"first_layers", "keep", "keep_layers", "optimizer_when"}));
  // A policy that is written out leaves nothing open but its name.
  const Scenario whole = read(replaced(kScenario, "[policy]\nname = \"penstock\"\n", policy_text(PolicyParameters{})));
  EXPECT_TRUE(whole.fixed.contains("group"));
  EXPECT_TRUE(whole.fixed.contains("mlp_chunk_tokens"));
  EXPECT_FALSE(whole.fixed.contains("name"));
}

TEST_F(ScenarioFile, TheLastOverrideOfAKeyWins) {
  EXPECT_EQ(read(kScenario, {"run.steps=5", "run.steps=6"}).run.steps, 6);
}

TEST_F(ScenarioFile, AProfileReplacesTheHardwareFile) {
  // Not a profile, but it was the one that was read.
  EXPECT_MENTIONS(refusal(kScenario, {"machine.profile=hardware/h.toml"}), "hardware/h.toml: is not JSON");
}

TEST_F(ScenarioFile, OverriddenPathsAreThoseOfTheShell) {
  folder_.write("elsewhere/big.json", replaced(kModel, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 5"));
  const std::string absolute = (folder_.path() / "elsewhere/big.json").string();
  EXPECT_EQ(read(kScenario, {"model.config=" + absolute}).model.layer_count(), 7);
  // Not there from here, so relative to the scenario.
  EXPECT_EQ(read(kScenario, {"model.config=elsewhere/big.json"}).model.layer_count(), 7);
  const std::string from_here = std::filesystem::relative(absolute).string();
  EXPECT_EQ(read(kScenario, {"model.config=" + from_here}).model.layer_count(), 7);
}

TEST_F(ScenarioFile, OverrideErrorsNameTheOption) {
  for (const char* text : {"", "policy", "policy=megatrain", "policy.=1", ".name=x", "policy.name"})
    EXPECT_MENTIONS(refusal(kScenario, {text}), "--set: expected table.key=value");
  EXPECT_EQ(refusal(kScenario, {"policy.groups=2"}),
            "--set policy.groups=2: [policy] groups: is not a key of this table; did you mean group?");
  EXPECT_EQ(refusal(kScenario, {"polcy.group=2"}),
            "--set polcy.group=2: [polcy] is not a table of this file; did you mean policy?");
  EXPECT_MENTIONS(refusal(kScenario, {"machine.hbm=12"}),
                  "--set machine.hbm=12: [machine] hbm: expected a size with its unit");
}

// --- the catalogue ------------------------------------------------------------------------------------------------

std::vector<std::filesystem::path> files(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Catalogue, EveryScenarioReads) {
  const auto scenarios = files(kCatalogue, ".toml");
  EXPECT_GE(scenarios.size(), 6u);
  for (const auto& path : scenarios) {
    const Scenario scenario = read_scenario(path);
    EXPECT_GT(scenario.model.parameters, 0) << path;
    EXPECT_LE(scenario.sequence_length, scenario.model.config.max_positions) << path;
    EXPECT_LE(scenario.policy_input().library_bytes, scenario.machine.gpu.hbm_bytes / 4) << path;
  }
}

TEST(Catalogue, HardwareFiguresAreSane) {
  const auto hardware = files(kCatalogue / "hardware", ".toml");
  EXPECT_GE(hardware.size(), 10u);
  for (const auto& path : hardware) {
    const Machine machine = read_hardware(path);
    const Gpu& gpu = machine.gpu;
    SCOPED_TRACE(path);
    if (gpu.is_host) continue;
    EXPECT_GE(gpu.hbm_bytes, 15.9e9);
    EXPECT_LE(gpu.hbm_bytes, 200e9);
    EXPECT_GE(gpu.hbm_bytes_per_second, 4e11);
    EXPECT_LE(gpu.hbm_bytes_per_second, 1e13);
    // FLOP per byte of HBM at which a kernel turns from memory- to compute-bound.
    EXPECT_GE(gpu.matmul_flops_per_second / gpu.hbm_bytes_per_second, 50);
    EXPECT_LE(gpu.matmul_flops_per_second / gpu.hbm_bytes_per_second, 400);
    // Host memory is slower than HBM, and a link never carries more than host memory.
    EXPECT_LT(machine.cpu.dram_bytes_per_second, gpu.hbm_bytes_per_second / 3);
    EXPECT_LE(machine.link.h2d.bytes_per_second, machine.cpu.dram_bytes_per_second);
    EXPECT_LE(machine.link.d2h.bytes_per_second, machine.cpu.dram_bytes_per_second);
    EXPECT_GT(machine.dram_bytes, gpu.hbm_bytes / 2);
    ASSERT_FALSE(machine.cpu.adamw_by_threads.empty());
    const double adamw = machine.cpu.adamw_by_threads.back().per_second * machine.cpu.adamw_bytes_per_parameter;
    EXPECT_LE(adamw, machine.cpu.dram_bytes_per_second * 1.02);
    EXPECT_GE(adamw, machine.cpu.dram_bytes_per_second * 0.5);
    for (const LinkDirection* direction : {&machine.link.h2d, &machine.link.d2h})
      for (const CopyPoint& point : direction->curve)
        EXPECT_LE(point.bytes / point.seconds, direction->bytes_per_second * 1.001);
    for (const DramSharing& sharing : machine.cpu.sharing) {
      EXPECT_LE(sharing.cpu_threads, machine.cpu.cores);
      EXPECT_LE(sharing.h2d_bytes_per_second, machine.link.h2d.bytes_per_second);
      EXPECT_LE(sharing.d2h_bytes_per_second, machine.link.d2h.bytes_per_second);
    }
  }
}

TEST(Catalogue, QuickstartsMachineHasTheLinkThatItsRunIsThrottledTo) {
  const Scenario scenario = read_scenario(kCatalogue / "quickstart.toml");
  EXPECT_EQ(scenario.run.backend, "host");
  EXPECT_EQ(scenario.machine.link.h2d.bytes_per_second, scenario.run.link_h2d_bytes_per_second);
  EXPECT_EQ(scenario.machine.link.d2h.bytes_per_second, scenario.run.link_d2h_bytes_per_second);
}

}  // namespace
}  // namespace penstock
