// [machine] card and host of a scenario.
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/scenario/scenario.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

const std::filesystem::path kCards = source_folder() / "scenarios/cards";

class CardScenario : public testing::Test {
 protected:
  Scenario read(const std::string& machine, const std::vector<std::string>& overrides = {}) {
    return read_scenario(folder_.write("s.toml",
                                       "[model]\nconfig = \"tiny-qwen3\"\n[workload]\nsequence_length = 32\n"
                                       "sequences = 4\nmicro_batch = 2\n[machine]\n" +
                                           machine),
                         overrides);
  }
  const TemporaryFolder folder_;
};

TEST_F(CardScenario, TheMachineIsACardAndItsUsualHostOrAnother) {
  const Machine usual = read("card = \"RTX 4090\"\n").machine;
  EXPECT_EQ(usual.gpu.hbm_bytes, 24LL << 30);
  EXPECT_EQ(usual.cpu.cores, 16);
  const Machine other = read("card = \"4090\"\nhost = \"Workstation\"\ndram = \"99 GB\"\n").machine;
  EXPECT_EQ(other.cpu.cores, 32);
  EXPECT_EQ(other.dram_bytes, 99'000'000'000);
}

TEST_F(CardScenario, ItsFilesAreNoOutputs) {
  const Scenario scenario = read("card = \"4090\"\n");
  EXPECT_TRUE(std::any_of(scenario.files.begin(), scenario.files.end(), [](const std::filesystem::path& file) {
    return file.filename() == "rtx4090.toml" && file.parent_path().filename() == "cards";
  }));
}

TEST_F(CardScenario, OverridesReplaceOneMachineByAnother) {
  const std::string hardware = "hardware = \"l40s\"\n";
  EXPECT_EQ(read(hardware, {"machine.card=4090"}).machine.gpu.name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(read(hardware, {"machine.card=4090", "machine.host=server"}).machine.cpu.cores, 64);
  EXPECT_EQ(read("card = \"4090\"\nhost = \"server\"\n", {"machine.hardware=l40s"}).machine.gpu.name, "NVIDIA L40S");
  EXPECT_EQ(read(hardware, {"machine.card=" + (kCards / "a6000.toml").string()}).machine.gpu.name, "NVIDIA RTX A6000");
}

TEST_F(CardScenario, WhatContradictsItselfIsRefused) {
  const auto refusal = [&](const std::string& machine) { return error_text([&] { read(machine); }); };
  EXPECT_MENTIONS(refusal("card = \"4090\"\nhardware = \"l40s\"\n"),
                  "s.toml:8: [machine] card: stands beside hardware");
  EXPECT_MENTIONS(refusal("hardware = \"l40s\"\nhost = \"desktop\"\n"),
                  "s.toml:9: [machine] host: stands without card");
  EXPECT_MENTIONS(refusal("card = \"4080\"\n"), "s.toml:8: [machine] card: there is no card \"4080\"");
  EXPECT_MENTIONS(refusal("card = \"\"\n"), "[machine] card: expected a name, found an empty text");
  EXPECT_MENTIONS(refusal("card = \"no/card.toml\"\n"), "[machine] card: there is no file");
  EXPECT_MENTIONS(refusal("dram = \"1 GB\"\n"), "hardware: is missing");
}

}  // namespace
}  // namespace penstock
