// What another system's code adds, in bytes: by hand for a model of round sizes, and for the software files of the
// catalogue against memory that was measured on an H200.
#include "sim/software/added_memory.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

/// Hidden 64, MLP 192, 3 decoder layers, vocabulary 256, heads 4 x 16, of them 2 for keys: q, o 4096, k, v 2048, gate,
/// up, down 12288, two norms of 64, 49 280 in all; embedding and head 16 384 each, the final norm 64. 180 672 in all.
Scenario scenario_of(const std::string& preset) {
  ModelConfig config;
  config.name = "round";
  config.hidden = 64;
  config.intermediate = 192;
  config.decoder_layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary = 256;
  config.max_positions = 512;
  Scenario scenario;
  scenario.model = make_model(config);
  scenario.sequence_length = 32;
  scenario.sequences = 8;
  scenario.micro_batch = 2;
  scenario.policy = preset_parameters(preset);
  scenario.machine.dram_bytes = 3600;
  scenario.machine.reserve_bytes = 0;
  return scenario;
}

class Added : public testing::Test {
 protected:
  SystemMemory system(const std::string& text, const Scenario& scenario = scenario_of("zero3-offload"),
                      const std::vector<TierMemory>& schedule = {}) const {
    return system_memory(read_software_memory(folder_.write("s.toml", "name = \"other\"\n" + text)), scenario,
                         schedule);
  }
  /// Of the one item that `text` describes.
  std::int64_t bytes(const std::string& text, const Scenario& scenario = scenario_of("zero3-offload")) const {
    const SystemMemory memory = system(kSettings + item(text), scenario);
    return memory.added.empty() ? 0 : memory.added.at(0).bytes;
  }
  static std::string item(const std::string& text, const std::string& name = "x") {
    return "[memory." + name + "]\ncause = \"" + name + "\"\ntier = \"dram\"\n" + text;
  }
  const std::string kSettings =
      "[settings]\non = true\noff = false\nsub_group_size = 30000\nbuffers = 5\nsize = 1000\n"
      "loss_chunk_tokens = 8\n";
  TemporaryFolder folder_;
};

TEST_F(Added, BytesOfWhatIsCounted) {
  EXPECT_EQ(bytes("bytes = \"1 KiB\"\ntimes = 3\n"), 3072);
  EXPECT_EQ(bytes("elements = \"parameters\"\nbytes_each = 2\n"), 361344);
  EXPECT_EQ(bytes("elements = \"parameters\"\nbytes_each = -0.5\n"), -90336);
  EXPECT_EQ(bytes("elements = \"largest_tensor\"\nbytes_each = 2\n"), 32768);
  EXPECT_EQ(bytes("elements = \"largest_layer\"\nbytes_each = 1\n"), 49280);
  EXPECT_EQ(bytes("elements = \"embedding\"\nbytes_each = 1\n"), 16384);
  EXPECT_EQ(bytes("elements = \"head\"\nbytes_each = 1\n"), 16384);
  EXPECT_EQ(bytes("elements = \"logits\"\nbytes_each = 14\n"), 14 * 64 * 256);
  EXPECT_EQ(bytes("elements = \"chunk_logits\"\nbytes_each = 2\n"), 2 * 2 * 8 * 256);
  EXPECT_EQ(bytes("elements = \"activations\"\nbytes_each = 12\n"), 12 * 64 * 64);
  EXPECT_EQ(bytes("elements = \"scores\"\nbytes_each = 5\n"), 5 * 2 * 4 * 32 * 32);
  EXPECT_EQ(bytes("elements = \"layer_scores\"\nbytes_each = 10\n"), 10 * 2 * 4 * 32 * 32);
  EXPECT_EQ(bytes("elements = \"layer_mlp\"\nbytes_each = -4\n"), -4 * 64 * 192);
  EXPECT_EQ(bytes("elements = \"size\"\nbytes_each = 2\n"), 2000);
  EXPECT_EQ(bytes("elements = \"parameters\"\nat_most = \"size\"\nbytes_each = 2\n"), 2000);
}

// Everything kept: three layers' activations at a time. Blocks of two: two.
TEST_F(Added, ActivationsAreThoseOfTheLayersThatAreHeld) {
  Scenario scenario = scenario_of("zero3-offload");
  scenario.policy.keep = Keep::everything;
  EXPECT_EQ(bytes("elements = \"activations\"\nbytes_each = 1\n", scenario), 3 * 64 * 64);
  EXPECT_EQ(bytes("elements = \"layer_scores\"\nbytes_each = 1\n", scenario), 2 * 4 * 32 * 32);
  scenario.policy.numerics.chunking.mlp_tokens = 40;
  EXPECT_EQ(bytes("elements = \"layer_mlp\"\nbytes_each = 1\n", scenario), 40 * 192);
  scenario.policy.keep = Keep::input;
  scenario.policy.checkpoint_every = 2;
  EXPECT_EQ(bytes("elements = \"activations\"\nbytes_each = 1\n", scenario), 2 * 64 * 64);
}

// 361 344 B become 524 288 in one piece. Layers of 98 560 B become 131 072 each; embedding and head are none. Tensors
// of 32 768 (twice), 8192 (q, o) and 4096 (k, v), 24 576 -> 32 768 (MLP), norms of 128: two times 32 768, three layers
// of 2 x 8192 + 2 x 4096 + 3 x 32 768 + 256, and 128.
TEST_F(Added, EachPieceIsRoundedToAPowerOfTwo) {
  const std::string two = "elements = \"parameters\"\nbytes_each = 2\npower_of_two = true\n";
  EXPECT_EQ(bytes(two), 524288);
  EXPECT_EQ(bytes(two + "pieces = \"layer\"\n"), 3 * 131072);
  const std::int64_t tensors = 2 * 32768 + 3 * (2 * 8192 + 2 * 4096 + 3 * 32768 + 256) + 128;
  EXPECT_EQ(bytes(two + "pieces = \"tensor\"\n"), tensors);
  EXPECT_EQ(bytes(two + "pieces = \"tensor\"\nrounding_only = true\n"), tensors - 361344);
  EXPECT_EQ(bytes(two + "times = 2\n"), 2 * 524288);
}

// In the order of the tensors: 16 384 (embedding) + 64 + 4096 + 2048 + 2048 + 4096 + 64 + 12 288 (gate) = 41 088 reach
// 30 000; so do 30 784 (up, down, norm, q, k), 30 784 (v, o, norm, gate, up), 36 992 (down .. gate) and 41 024 (..
// head). Of 4 B, three take 262 144 and two 131 072.
TEST_F(Added, SubGroupsAreClosedByTheTensorThatReachesTheSize) {
  const std::string groups = "elements = \"parameters\"\nbytes_each = 4\npieces = \"sub_group\"\n";
  EXPECT_EQ(bytes(groups), 4 * 180672);
  EXPECT_EQ(bytes(groups + "power_of_two = true\n"), 3 * 262144 + 2 * 131072);
}

// 5 x 1000 elements of 2 B in one block: 10 000 become 16 384. Five blocks of 2000: 5 x 2048.
TEST_F(Added, TogetherIsBeforeRoundingAndTimesBehindIt) {
  const std::string size = "elements = \"size\"\nbytes_each = 2\npower_of_two = true\n";
  EXPECT_EQ(bytes(size + "together = \"buffers\"\n"), 16384);
  EXPECT_EQ(bytes(size + "times = \"buffers\"\n"), 5 * 2048);
}

// 361 344 B between five: 72 268.8 each, which become 131 072. Tensors of 32 768 B: 6553.6, which become 8192, q and o
// of 8192 2048 each, k and v of 4096 1024 each, those of the MLP of 24 576 8192 each, norms of 128 25.6, so 32. The
// host has all five shares, a GPU one.
TEST_F(Added, SharesOfProcessesAreRoundedEachAndAllStandInTheHost) {
  const std::string shared = "elements = \"parameters\"\nbytes_each = 2\nshared_by = \"buffers\"\n";
  EXPECT_EQ(bytes(shared), 361344);
  EXPECT_EQ(bytes(shared + "power_of_two = true\n"), 5 * 131072);
  const std::int64_t tensors = 2 * 8192 + 3 * (2 * 2048 + 2 * 1024 + 3 * 8192 + 2 * 32) + 32;
  EXPECT_EQ(bytes(shared + "power_of_two = true\npieces = \"tensor\"\n"), 5 * tensors);
  const std::string text = kSettings + "[memory.x]\ncause = \"x\"\ntier = \"hbm\"\n" + shared;
  EXPECT_EQ(system(text).added.at(0).bytes, 72269);
}

TEST_F(Added, ConditionsAndPresetsDecideWhetherItIsThere) {
  const std::string fixed = "bytes = \"1 KiB\"\n";
  EXPECT_EQ(bytes(fixed + "when = \"on\"\n"), 1024);
  EXPECT_EQ(bytes(fixed + "when = \"off\"\n"), 0);
  EXPECT_EQ(bytes(fixed + "when = \"on, not off\"\n"), 1024);
  EXPECT_EQ(bytes(fixed + "when = \"on, not on\"\n"), 0);
  EXPECT_EQ(bytes(fixed + "presets = \"zero2-offload, zero3-offload\"\n"), 1024);
  EXPECT_EQ(bytes(fixed + "presets = \"zero2-offload\"\n"), 0);
  EXPECT_MENTIONS(error_text([&] { bytes(fixed + "presets = \"zero4\"\n"); }), "zero4");
  EXPECT_MENTIONS(error_text([&] { bytes(fixed + "phases = \"looss\"\n"); }), "looss");
  EXPECT_MENTIONS(error_text([&] { bytes(fixed + "instead_of = \"gradient\"\n"); }), "\"gradient\"");
}

TEST_F(Added, AScenarioChangesSettingsThatThereAre) {
  Scenario scenario = scenario_of("zero3-offload");
  scenario.software_settings["size"] = {{3000, false}, "x.toml:9: [software] size"};
  scenario.software_settings["on"] = {{0, true}, "x.toml:8: [software] on"};
  EXPECT_EQ(bytes("elements = \"size\"\nbytes_each = 2\n", scenario), 6000);
  EXPECT_EQ(bytes("bytes = \"1 KiB\"\nwhen = \"on\"\n", scenario), 0);
  scenario.software_settings["size"].setting.value = 1'000'000'000'000;
  const std::string huge = "elements = \"size\"\ntogether = \"size\"\nbytes_each = 1000\npower_of_two = true\n";
  EXPECT_MENTIONS(error_text([&] { bytes(huge, scenario); }), "makes 1e+27 bytes");
  scenario.software_settings["sizes"] = {{1, false}, "x.toml:7: [software] sizes"};
  const std::string unknown = error_text([&] { bytes("bytes = \"1 KiB\"\n", scenario); });
  EXPECT_MENTIONS(unknown, "x.toml:7: [software] sizes");
  EXPECT_MENTIONS(unknown, "did you mean size");
  scenario.software_settings.erase("sizes");
  scenario.software_settings["size"] = {{1, true}, "x.toml:9: [software] size"};
  EXPECT_MENTIONS(error_text([&] { bytes("bytes = \"1 KiB\"\n", scenario); }), "a whole number");
}

TierMemory tier_of(TierKind kind, std::int64_t capacity, std::array<std::int64_t, kMemoryPhases> phases) {
  TierMemory memory;
  memory.tier.kind = kind;
  memory.tier.capacity_bytes = capacity;
  memory.phase_bytes = phases;
  memory.contents = {{"gradients", 30}, {"weights", 20}};
  return memory;
}

// Phases: load, forward, loss, backward, optimizer, first step, save, resume. 1024 always and 2048 in the loss on top
// of 100, 200, 500, 300, ...: the loss needs most, the first step as much. Resuming needs 4096 more and is judged
// apart.
TEST_F(Added, ItemsAreAddedInTheirPhases) {
  const std::vector<TierMemory> schedule{tier_of(TierKind::dram, 3600, {100, 200, 500, 300, 100, 500, 150, 150}),
                                         tier_of(TierKind::hbm, 1000, {0, 10, 20, 60, 40, 60, 0, 0})};
  const std::string text =
      item("bytes = \"1 KiB\"\n", "always") + item("bytes = \"2 KiB\"\nphases = \"loss\"\n", "logits") +
      item("bytes = \"4 KiB\"\nphases = \"resume\"\n", "resumed") +
      "[memory.bucket]\ncause = \"bucket\"\ntier = \"hbm\"\nphases = \"backward\"\nbytes = \"100 B\"\ninstead_of = "
      "\"gradients\"\n";
  const SystemMemory memory = system(text, scenario_of("zero3-offload"), schedule);
  ASSERT_EQ(memory.tiers.size(), 2u);
  const SystemTier& dram = memory.tiers[0];
  EXPECT_EQ(dram.phase_bytes, (std::array<std::int64_t, 8>{1124, 1224, 3572, 1324, 1124, 3572, 1174, 5270}));
  EXPECT_EQ(dram.peak_bytes, 3572);
  EXPECT_EQ(dram.peak_phase, MemoryPhase::loss);
  EXPECT_EQ(dram.most_until(MemoryPhase::first_step), 3572);
  EXPECT_EQ(dram.most_until(MemoryPhase::save), 3572);
  EXPECT_EQ(dram.most_until(MemoryPhase::resume), 5270);
  EXPECT_EQ(memory.tiers[1].phase_bytes[3], 60 + 100 - 30);
  EXPECT_TRUE(memory.fits());
  ASSERT_EQ(memory.added.size(), 4u);
  EXPECT_EQ(memory.added[0].tier, TierKind::hbm);
  EXPECT_EQ(memory.added[0].instead_of, 30);
  EXPECT_EQ(memory.added[1].cause, "resumed");  // the largest of the tier first
}

// What only the first step has comes on top of the phases that it goes through.
TEST_F(Added, TheFirstStepHasWhatIsItsOwn) {
  const std::vector<TierMemory> schedule{tier_of(TierKind::dram, 3600, {100, 200, 500, 300, 100, 500, 150, 150})};
  const SystemTier tier = system(item("bytes = \"1 KiB\"\nphases = \"first step\"\n", "own") +
                                     item("bytes = \"2 KiB\"\nphases = \"optimizer, first step\"\n", "states"),
                                 scenario_of("zero3-offload"), schedule)
                              .tiers[0];
  EXPECT_EQ(tier.phase_bytes, (std::array<std::int64_t, 8>{100, 200, 500, 300, 2148, 3172, 150, 150}));
  EXPECT_EQ(tier.peak_phase, MemoryPhase::first_step);
}

// The layer at work is done when the loss is, unless everything is kept.
TEST_F(Added, ActivationsAreNotThereInTheLossUnlessKept) {
  const std::vector<TierMemory> schedule{tier_of(TierKind::dram, 1 << 20, {})};
  Scenario scenario = scenario_of("zero3-offload");
  const std::string text = item("elements = \"scores\"\nbytes_each = 1\nphases = \"loss, backward\"\n");
  const auto loss = static_cast<std::size_t>(MemoryPhase::loss);
  EXPECT_EQ(system(text, scenario, schedule).tiers[0].phase_bytes[loss], 0);
  scenario.policy.keep = Keep::everything;
  EXPECT_EQ(system(text, scenario, schedule).tiers[0].phase_bytes[loss], 3 * 2 * 4 * 32 * 32);
}

// Memory that was measured on an H200 and beside it (docs/capacity.md), GiB: what the process took of the host, what
// PyTorch had allocated on the GPU.
struct Measured {
  const char* scenario;
  std::vector<std::string> overrides;
  const char* software;
  double host_gib;
  double gpu_gib;  // 0: not measured
};

TEST(Catalogue, MemoryMeasuredOnAnH200IsMet) {
  const std::vector<std::string> deepspeed{"policy.name=zero3-offload", "software.zero_init=false",
                                           "workload.micro_batch=40"};
  const std::string small = "model.config=" + (source_folder() / "scenarios/models/qwen2.5-3b.json").string();
  const std::vector<std::string> length_4096{"workload.sequence_length=4096", "workload.sequences=39",
                                             "workload.micro_batch=39"};
  std::vector<std::string> small_4096 = length_4096;
  small_4096.push_back(small);
  const std::vector<Measured> rows{
      {"qwen2.5-3b-h200", deepspeed, "deepspeed", 66.9, 89.7},
      {"published/h200-fsdp2", {}, "fsdp2", 59.9, 50.5},
      {"published/h200-fsdp2", length_4096, "fsdp2", 59.9, 49.8},
      {"qwen2.5-7b-h200", {"policy.name=fsdp2-offload", "software.pin_memory=false"}, "fsdp2", 116.9, 0},
      {"published/h200-megatrain", {small}, "megatrain-released", 52.7, 74.5},
      {"published/h200-megatrain", small_4096, "megatrain-released", 52.7, 61.0},
      {"published/h200-megatrain", {}, "megatrain-released", 113.8, 82.9},
      {"published/h200-megatrain",
       {"workload.sequences=256", "workload.micro_batch=256"},
       "megatrain-released",
       113.8,
       131.9}};
  for (const Measured& row : rows) {
    std::vector<std::string> overrides = row.overrides;
    overrides.emplace_back("run.deterministic=false");
    const std::filesystem::path scenarios = source_folder() / "scenarios";
    const Scenario scenario = read_scenario(scenarios / (std::string(row.scenario) + ".toml"), overrides);
    const SystemMemory memory =
        system_memory(read_software_memory(scenarios / "software" / (std::string(row.software) + ".toml")), scenario,
                      schedule_memory(make_schedule(scenario.policy_input())));
    for (const SystemTier& tier : memory.tiers) {
      const double gib = static_cast<double>(tier.peak_bytes) / (std::int64_t{1} << 30);
      if (tier.tier.kind == TierKind::dram) {
        EXPECT_NEAR(gib, row.host_gib, 0.02 * row.host_gib) << row.scenario << " " << row.software;
      } else if (tier.tier.kind == TierKind::hbm && row.gpu_gib > 0) {
        EXPECT_NEAR(gib, row.gpu_gib, 0.05 * row.gpu_gib) << row.scenario << " " << row.software;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::sim
