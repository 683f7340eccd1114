// The keys of a scenario that reproduces somebody else's measurement: another number of layers, software, [published].
#include <gtest/gtest.h>

#include "shared/scenario/scenario.h"
#include "tests/shared/error_text.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

const std::filesystem::path kCatalogue = source_folder() / "scenarios";

const std::string kScenario = R"([model]
config = "models/tiny-llama.json"
[machine]
hardware = "hardware/gh200.toml"
[workload]
sequence_length = 100
sequences = 10
micro_batch = 2
)";

Scenario parsed(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(kScenario + more, "x", kCatalogue, overrides);
}

std::string error_of(const std::string& more) {
  return error_text([&] { parsed(more); });
}

TEST(Published, IsNotThereUnlessTheTableIs) { EXPECT_FALSE(parsed("").published); }

TEST(Published, SecondsAreTakenAsTheyAre) {
  const auto published =
      parsed("[published]\nstep = \"2.5 s\"\nhbm = \"8 GB\"\nfits = false\nsource = \"p\"\n").published;
  ASSERT_TRUE(published);
  EXPECT_EQ(published->step_seconds, 2.5);
  EXPECT_EQ(published->hbm_bytes, 8'000'000'000);
  EXPECT_EQ(published->fits, false);
  EXPECT_EQ(published->source, "p");
  EXPECT_EQ(published->assumed, "");
}

// tiny-llama has 171 456 parameters: 6 x 171 456 x 1000 tokens / 1 MFLOP/s = 1028.736 s.
TEST(Published, FlopsAreCountedAsSixTimesParametersTimesTokens) {
  const auto published =
      parsed("[published]\nflops = \"1 MFLOP/s\"\nsource = \"p\"\nassumed = \"the batch\"\n").published;
  ASSERT_TRUE(published);
  EXPECT_DOUBLE_EQ(published->step_seconds, 1028.736);
  EXPECT_FALSE(published->fits);
  EXPECT_EQ(published->assumed, "the batch");
}

TEST(Published, SaysWhereItEnded) {
  const auto published =
      parsed("[published]\nfits = false\nran_out = \"dram\"\nphase = \"first step\"\nsource = \"p\"\n").published;
  ASSERT_TRUE(published);
  EXPECT_EQ(published->ran_out, "dram");
  EXPECT_EQ(published->phase, "first step");
  EXPECT_NE(error_of("[published]\nran_out = \"ram\"\nsource = \"p\"\n").find("\"ram\""), std::string::npos);
  EXPECT_NE(error_of("[published]\nphase = \"start\"\nsource = \"p\"\n").find("\"start\""), std::string::npos);
}

TEST(ScenarioSoftware, SettingsAreFlagsAndWholeNumbersWithTheirPlace) {
  const Scenario scenario = parsed("[software]\npin_memory = false\n", {"software.reduce_bucket_size=7"});
  ASSERT_EQ(scenario.software_settings.size(), 2u);
  const GivenSetting& pinned = scenario.software_settings.at("pin_memory");
  EXPECT_TRUE(pinned.setting.is_flag);
  EXPECT_EQ(pinned.setting.value, 0);
  EXPECT_EQ(pinned.place, "x:10: [software] pin_memory");
  const GivenSetting& bucket = scenario.software_settings.at("reduce_bucket_size");
  EXPECT_FALSE(bucket.setting.is_flag);
  EXPECT_EQ(bucket.setting.value, 7);
  for (const char* wrong : {"-1", "\"many\"", "1.5", "1e9", "2000000000000"})
    EXPECT_NE(error_of(std::string("[software]\nreduce_bucket_size = ") + wrong + "\n").find("reduce_bucket_size"),
              std::string::npos)
        << wrong;
}

TEST(Published, ContradictionsAreRefused) {
  EXPECT_NE(error_of("[published]\nstep = \"1 s\"\nflops = \"1 MFLOP/s\"\nsource = \"p\"\n").find("stands beside step"),
            std::string::npos);
  EXPECT_NE(error_of("[published]\nstep = \"0 s\"\nsource = \"p\"\n").find("more than 0 s"), std::string::npos);
  EXPECT_NE(error_of("[published]\nstep = \"1 s\"\n").find("source"), std::string::npos);
}

TEST(ScenarioModel, LayersChangeTheModel) {
  const Scenario three = parsed(""), seven = parsed("", {"model.layers=7"});
  EXPECT_EQ(three.model.config.decoder_layers, 3);
  EXPECT_EQ(seven.model.config.decoder_layers, 7);
  EXPECT_EQ(seven.model.parameters - three.model.parameters, 4 * three.model.layers[1].parameters);
  EXPECT_EQ(seven.model.config.name, "tiny-llama, 7 layers");
}

TEST(ScenarioMachine, SoftwareChangesTheMachine) {
  const Scenario scenario = parsed("", {"machine.software=software/megatrain.toml"});
  EXPECT_EQ(scenario.machine.software.name, "MegaTrain, eager PyTorch");
  // gh200.toml uploads at 375 GB/s behind a packing of 5: 1 / (1/375 + 1/5).
  EXPECT_NEAR(scenario.machine.link.h2d.bytes_per_second, 375e9 / 76, 1);
}

/// Every committed scenario with a published figure is read, and says where the figure comes from.
TEST(Catalogue, PublishedScenariosAreRead) {
  int count = 0;
  for (const char* folder : {"published", "capacity"})
    for (const auto& entry : std::filesystem::directory_iterator(kCatalogue / folder)) {
      if (entry.path().extension() != ".toml") continue;
      SCOPED_TRACE(entry.path());
      const Scenario scenario = read_scenario(entry.path());
      ASSERT_TRUE(scenario.published);
      EXPECT_FALSE(scenario.published->source.empty());
      EXPECT_TRUE(scenario.published->step_seconds > 0 || scenario.published->fits ||
                  !scenario.published->rows.empty());
      ++count;
    }
  EXPECT_GE(count, 65);
}

}  // namespace
}  // namespace penstock
