// A machine of a card and a host: whose figure counts, and the link as the lesser of both.
#include "shared/machine/card_and_host.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

const fs::path kScenarios = source_folder() / "scenarios";

Machine of(const std::string& card, const std::string& host) {
  return read_card_and_host(kScenarios / "cards" / (card + ".toml"),
                            host.empty() ? fs::path() : kScenarios / "hosts" / (host + ".toml"));
}

void expect_link(const Machine& machine, double h2d, double d2h, double duplex_h2d, double duplex_d2h) {
  EXPECT_DOUBLE_EQ(machine.link.h2d.bytes_per_second, h2d * 1e9) << machine.name;
  EXPECT_DOUBLE_EQ(machine.link.d2h.bytes_per_second, d2h * 1e9) << machine.name;
  EXPECT_DOUBLE_EQ(machine.link.duplex_h2d_bytes_per_second, duplex_h2d * 1e9) << machine.name;
  EXPECT_DOUBLE_EQ(machine.link.duplex_d2h_bytes_per_second, duplex_d2h * 1e9) << machine.name;
}

TEST(CardAndHost, TheLinkIsTheLesserOfBoth) {
  expect_link(of("b200-sxm", "server"), 54, 55, 44.4, 44.4);       // PCIe 5 on either side
  expect_link(of("rtx4090", "server"), 25, 26, 21, 21);            // a card of PCIe 4
  expect_link(of("rtx5090", "workstation-ddr4"), 25, 26, 21, 21);  // a host of PCIe 4
  expect_link(of("rtx5060ti", "workstation"), 25, 26, 21, 21);     // eight lanes of PCIe 5 are sixteen of PCIe 4
  expect_link(of("rtx5060ti", "workstation-ddr4"), 12.5, 13, 10.5, 10.5);  // eight lanes of PCIe 4
  expect_link(of("rtx5090", "desktop"), 33, 33, 28, 28);                   // what a desktop's memory lets through
  expect_link(of("a100-80gb-pcie", "server"), 25, 25, 21, 21);             // what the card was found to reach
  expect_link(of("rtx3090", "desktop-ddr4"), 25, 25, 14, 14);
}

TEST(CardAndHost, AMeasuredCurveBelongsToTheWholeLink) {
  const Machine whole = of("h200-sxm", "server"), half = of("h200-sxm", "server-ddr4");
  EXPECT_EQ(whole.link.h2d.curve.size(), 6u);
  EXPECT_TRUE(half.link.h2d.curve.empty());
  EXPECT_DOUBLE_EQ(half.link.h2d.bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(half.link.h2d.latency_seconds, 2.5e-6);  // the card's own
}

TEST(CardAndHost, TheHostHasMemoryByChannels) {
  const Machine desktop = of("rtx4090", ""), server = of("rtx4090", "server-two-sockets");
  EXPECT_EQ(desktop.host.stem(), "desktop");  // usual
  EXPECT_DOUBLE_EQ(desktop.cpu.dram_bytes_per_second, 2 * 35e9);
  EXPECT_DOUBLE_EQ(server.cpu.dram_bytes_per_second, 16 * 31.25e9);
  EXPECT_EQ(server.cpu.cores, 128);
  EXPECT_DOUBLE_EQ(desktop.gpu.watts, 450);
  EXPECT_DOUBLE_EQ(desktop.host_watts, 150);
  EXPECT_EQ(desktop.gpu.name, server.gpu.name);
}

TEST(CardAndHost, EveryCardOfTheCatalogueGoesIntoItsUsualHost) {
  const std::vector<std::string> cards = catalogue_names(CatalogueKind::card);
  EXPECT_GE(cards.size(), 17u);
  for (const std::string& card : cards) {
    const Machine machine = of(card, "");
    EXPECT_GT(machine.gpu.watts, 0) << card;
    EXPECT_GT(machine.host_watts, 0) << card;
    EXPECT_GT(machine.nvme.read_bytes_per_second, 0) << card;
  }
}

TEST(CardAndHost, WhatGoesIntoNoSlotIsRefused) {
  EXPECT_MENTIONS(error_text([] { of("gh200", "desktop"); }), "goes into no slot of desktop");
  EXPECT_MENTIONS(error_text([] { of("rtx4090", "grace"); }), "finds no slot in Grace");
  EXPECT_MENTIONS(error_text([] { of("h100-sxm", "desktop"); }), "is a module of a server's board");
  EXPECT_NO_THROW(of("h100-pcie", "desktop"));
}

class Composed : public testing::Test {
 protected:
  Machine read(const std::string& text) { return read_hardware(folder_.write("mine.toml", text)); }
  std::string refusal(const std::string& text) {
    return error_text([&] { read(text); });
  }
  const TemporaryFolder folder_;
};

TEST_F(Composed, AFilesOwnFiguresGoBeforeThoseOfItsParts) {
  const Machine machine = read(
      "name = \"mine\"\ncard = \"4090\"\nhost = \"desktop\"\n[dram]\ncapacity = \"96 GB\"\n"
      "bandwidth = \"61 GB/s\"\n[gpu]\nmatmul = \"140 TFLOP/s\"\n[link]\nd2h = \"20 GB/s\"\n"
      "duplex_d2h = \"19 GB/s\"\n[cpu.adamw_by_threads]\n8 = \"2 Gparam/s\"\n");
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.dram_bytes, 96'000'000'000);
  EXPECT_DOUBLE_EQ(machine.cpu.dram_bytes_per_second, 61e9);  // instead of channels
  EXPECT_DOUBLE_EQ(machine.gpu.matmul_flops_per_second, 140e12);
  EXPECT_DOUBLE_EQ(machine.gpu.hbm_bytes_per_second, 1008e9);
  expect_link(machine, 25, 20, 21, 19);
  ASSERT_EQ(machine.cpu.adamw_by_threads.size(), 1u);
  EXPECT_EQ(machine.cpu.adamw_by_threads[0].threads, 8);
  EXPECT_EQ(machine.card.filename(), "rtx4090.toml");
}

TEST_F(Composed, PartsOfOnesOwnAreNamedByTheirPaths) {
  folder_.write("parts/card.toml",
                "name = \"C\"\nhost = \"desktop\"\n[gpu]\nname = \"C\"\nhbm = \"8 GB\"\nhbm_bandwidth = \"300 GB/s\"\n"
                "matmul = \"20 TFLOP/s\"\nlaunch = \"4 us\"\n[pcie]\ngeneration = 3\nlanes = 4\n");
  expect_link(read("name = \"mine\"\ncard = \"parts/card.toml\"\nhost = \"workstation\"\n"), 3.125, 3.25, 2.625, 2.625);
  EXPECT_MENTIONS(refusal("name = \"mine\"\ncard = \"parts/cart.toml\"\nhost = \"desktop\"\n"),
                  "mine.toml:2: card: there is no file");
}

TEST_F(Composed, ErrorsNameTheFileThatIsWrong) {
  EXPECT_MENTIONS(refusal("name = \"mine\"\ncard = \"rtx4090\"\nhost = \"laptop\"\n"),
                  "mine.toml:3: host: there is no host");
  EXPECT_MENTIONS(refusal("name = \"mine\"\ncard = \"A100\"\nhost = \"server\"\n"),
                  "mine.toml:2: card: \"A100\" may be");
  EXPECT_MENTIONS(refusal("name = \"mine\"\ncard = \"rtx4090\"\n"), "[dram] capacity: is missing");
  const std::string card = "name = \"C\"\nhost = \"desktop\"\n[gpu]\nname = \"C\"\n";
  const std::string mine = "name = \"mine\"\ncard = \"c.toml\"\nhost = \"desktop\"\n";
  folder_.write("c.toml", card + "[pcie]\ngeneration = 4\nlanes = 12\n");
  EXPECT_MENTIONS(refusal(mine), "c.toml:7: [pcie] lanes: expected 1, 2, 4, 8 or 16, found 12");
  folder_.write("c.toml", card + "[pcie]\ngeneration = 40\nlanes = 16\n");
  EXPECT_MENTIONS(refusal(mine), "c.toml:6: [pcie] generation: expected a whole number from 1 to 8");
  folder_.write("c.toml", card + "[dram]\ncapacity = \"1 GB\"\n");
  EXPECT_MENTIONS(refusal(mine), "[dram] is not a table of this file");
  folder_.write("c.toml", card + "[pcie]\ngeneration = 4\nlanes = 16\n");
  EXPECT_MENTIONS(refusal(mine), "[gpu] hbm: is missing");
}

}  // namespace
}  // namespace penstock
