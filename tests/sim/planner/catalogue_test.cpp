#include "sim/planner/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "shared/error.h"
#include "sim/money/part_prices.h"
#include "sim/planner/parallel.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/sim/planner/small_scenario.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

const std::filesystem::path kScenarios = source_folder() / "scenarios";

std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "machines.toml";
  std::ofstream(file) << text;
  return error_text([&] { read_catalogue(file); });
}

std::string machine(const std::string& rest) {
  return "[machine.m]\nhardware = \"" + (kScenarios / "hardware/rtx4090.toml").string() + "\"\n" + rest;
}

TEST(Catalogue, ReadsTheOneThatIsShipped) {
  const Catalogue catalogue = read_catalogue(kScenarios / "prices/machines.toml");
  ASSERT_GE(catalogue.offers.size(), 5u);
  for (std::size_t i = 1; i < catalogue.offers.size(); ++i)
    EXPECT_GE(catalogue.offers[i].price.euros, catalogue.offers[i - 1].price.euros);
  EXPECT_EQ(catalogue.offers.front().machine.dram_bytes, 64'000'000'000);  // not the 128 GiB of its hardware file
  for (const Offer& offer : catalogue.offers) EXPECT_FALSE(offer.price.source.empty());
}

TEST(Catalogue, AMachineOfACardAndAHostHasThePriceOfItsParts) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "machines.toml";
  std::ofstream(file)
      << "[machine.a]\ncard = \"RTX 4090\"\nhost = \"workstation\"\ndram = \"100 GB\"\nnvme = \"0 B\"\n";
  const Offer offer = read_catalogue(file).offers.at(0);
  const PartPrices prices = catalogue_part_prices();
  EXPECT_EQ(offer.machine.cpu.cores, 32);
  EXPECT_DOUBLE_EQ(offer.price.euros, prices.cards.at("rtx4090").euros + prices.hosts.at("workstation").euros +
                                          100 * prices.dram_gigabyte->euros);
  EXPECT_TRUE(offer.price.assumed);  // the host's is
  EXPECT_NE(error_of("[machine.m]\ncard = \"4090\"\nhardware = \"x\"\n").find("keep one of the two"),
            std::string::npos);
  EXPECT_NE(error_of("[machine.m]\ncard = \"4090\"\nsource = \"s\"\n").find("source"), std::string::npos);
  EXPECT_NE(error_of("[machine.m]\nhost = \"desktop\"\n").find("stands without card"), std::string::npos);
  EXPECT_NE(error_of("[machine.m]\nhardware = \"" + (kScenarios / "hardware/this-cpu.toml").string() + "\"\n")
                .find("prices/parts.toml of the catalogue has none"),
            std::string::npos);
}

TEST(Catalogue, APriceNeedsItsSourceAndDate) {
  EXPECT_NE(error_of(machine("price = 1000\n")).find("source"), std::string::npos);
  EXPECT_NE(error_of(machine("price = 1000\nsource = \"shop\"\n")).find("date"), std::string::npos);
  EXPECT_NE(error_of(machine("price = -1\nsource = \"shop\"\ndate = \"today\"\n")).find("price"), std::string::npos);
  EXPECT_NE(error_of(machine("price = 1\nsource = \"s\"\ndate = \"d\"\ncolour = \"red\"\n")).find("colour"),
            std::string::npos);
  EXPECT_NE(error_of("").find("has no table [machine.NAME]"), std::string::npos);
  EXPECT_NE(error_of("[upgrade.u]\nlink = 0.5\nprice = 1\nsource = \"s\"\ndate = \"d\"\n").find("link"),
            std::string::npos);
}

TEST(Catalogue, AnUpgradeChangesWhatItSays) {
  Upgrade upgrade;
  upgrade.dram_bytes = 1000;
  upgrade.link_factor = 2;
  upgrade.drive_bytes = 1 << 24;
  Machine before = test::small_machine();
  before.nvme = {1 << 24, 15e6, 12e6, 1e-6};
  before.nvme.endurance_bytes = 7e12;
  const Machine after = upgraded(before, upgrade);
  EXPECT_EQ(after.nvme.bytes, 1 << 25);  // a second drive
  EXPECT_EQ(after.nvme.read_bytes_per_second, 30e6);
  EXPECT_EQ(after.nvme.write_bytes_per_second, 24e6);
  EXPECT_EQ(after.nvme.endurance_bytes, 14e12);
  before.nvme.bytes = 0;  // the first one, at the rates that the machine's file has
  EXPECT_EQ(upgraded(before, upgrade).nvme.bytes, 1 << 24);
  EXPECT_EQ(upgraded(before, upgrade).nvme.read_bytes_per_second, 15e6);
  EXPECT_EQ(after.dram_bytes, before.dram_bytes + 1000);
  EXPECT_EQ(after.link.h2d.bytes_per_second, 2 * before.link.h2d.bytes_per_second);
  EXPECT_EQ(after.link.duplex_d2h_bytes_per_second, 2 * before.link.duplex_d2h_bytes_per_second);
  EXPECT_EQ(after.cpu.dram_bytes_per_second, before.cpu.dram_bytes_per_second);
  EXPECT_EQ(after.gpu.matmul_flops_per_second, before.gpu.matmul_flops_per_second);
}

TEST(ParallelFor, ThrowsTheFirstErrorByIndexAfterAllHasRun) {
  std::vector<int> done(50, 0);
  try {
    parallel_for(done.size(), 4, [&](std::size_t i, std::size_t) {
      done[i] = 1;
      if (i == 7 || i == 31) throw InputError(std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(std::count(done.begin(), done.end(), 1), 50);
}

}  // namespace
}  // namespace penstock::sim
