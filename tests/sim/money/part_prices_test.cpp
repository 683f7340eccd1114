#include "sim/money/part_prices.h"

#include <gtest/gtest.h>

#include "shared/catalogue.h"
#include "shared/machine/card_and_host.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::sim {
namespace {

const std::filesystem::path kScenarios = source_folder() / "scenarios";

PartPrices read(const std::string& text) {
  const TemporaryFolder folder;
  return read_part_prices(folder.write("p.toml", text));
}

constexpr const char* kSource = "source = \"s\"\ndate = \"2026-01-01\"\n";

TEST(PartPrices, CurrenciesAreChanged) {
  const PartPrices prices =
      read(std::string("[currency.USD]\nprice = 0.5\n") + kSource + "[card.c]\nprice = 100\ncurrency = \"USD\"\n" +
           kSource + "[rent.c]\nprice = 3\n" + "assumed = true\n" + kSource);
  EXPECT_DOUBLE_EQ(prices.cards.at("c").euros, 50);
  EXPECT_DOUBLE_EQ(prices.rents.at("c").euros, 3);
  EXPECT_TRUE(prices.rents.at("c").assumed);
}

TEST(PartPrices, EveryPriceNeedsItsSourceAndDate) {
  const auto refusal = [](const std::string& text) { return error_text([&] { read(text); }); };
  EXPECT_MENTIONS(refusal("[card.c]\nprice = 1\ndate = \"d\"\n"), "[card.c] source: is missing");
  EXPECT_MENTIONS(refusal("[card.c]\nprice = 1\nsource = \"s\"\n"), "[card.c] date: is missing");
  EXPECT_MENTIONS(refusal(std::string("[card.c]\nprice = -1\n") + kSource), "[card.c] price: expected a number from 0");
  EXPECT_MENTIONS(refusal(std::string("[card.c]\nprice = 1\ncurrency = \"GBP\"\n") + kSource),
                  "expected EUR or one with a table [currency.NAME]");
  EXPECT_MENTIONS(refusal(std::string("[life]\nyears = 0\n") + kSource), "[life] years");
  EXPECT_MENTIONS(refusal(std::string("[cards.c]\nprice = 1\n") + kSource), "is not a table of this file");
}

TEST(PartPrices, TheCatalogueHasEveryCardAndHost) {
  const PartPrices prices = read_part_prices(kScenarios / "prices/parts.toml");
  for (const std::string& card : catalogue_names(CatalogueKind::card)) {
    const Machine machine = read_card_and_host(kScenarios / "cards" / (card + ".toml"), {});
    EXPECT_TRUE(machine_price(prices, machine)) << card;
  }
  for (const std::string& host : catalogue_names(CatalogueKind::host)) EXPECT_TRUE(prices.hosts.contains(host)) << host;
  for (const auto& [name, price] : prices.cards)
    EXPECT_TRUE(in_catalogue(CatalogueKind::card, name)) << name;  // a price of nothing
  for (const auto& [name, price] : prices.rents) EXPECT_TRUE(in_catalogue(CatalogueKind::card, name)) << name;
  EXPECT_TRUE(prices.electricity);
  EXPECT_TRUE(prices.life_years);
}

TEST(PartPrices, MemoryThatIsSolderedIsInItsHostsPrice) {
  const PartPrices prices = read_part_prices(kScenarios / "prices/parts.toml");
  Machine machine = read_card_and_host(kScenarios / "cards/gh200.toml", {});
  machine.nvme.bytes = 0;
  EXPECT_DOUBLE_EQ(machine_price(prices, machine)->euros,
                   prices.cards.at("gh200").euros + prices.hosts.at("grace").euros);
  machine = read_card_and_host(kScenarios / "cards/rtx4090.toml", {});
  machine.nvme.bytes = 0;
  machine.dram_bytes = 100'000'000'000;
  EXPECT_DOUBLE_EQ(
      machine_price(prices, machine)->euros,
      prices.cards.at("rtx4090").euros + prices.hosts.at("desktop").euros + 100 * prices.dram_gigabyte->euros);
  EXPECT_TRUE(unpriced_parts(prices, machine).empty());
  machine.card = "";  // nobody knows what it is
  EXPECT_FALSE(machine_price(prices, machine));
  EXPECT_EQ(unpriced_parts(prices, machine), std::vector<std::string>{"card"});
}

TEST(PartPrices, PartsWithoutAPriceAreNamed) {
  Machine machine = read_card_and_host(kScenarios / "cards/rtx4090.toml", {});
  machine.card = "folder/my-card.toml";
  machine.nvme.bytes = 1;
  PartPrices prices = read_part_prices(kScenarios / "prices/parts.toml");
  EXPECT_EQ(unpriced_parts(prices, machine), std::vector<std::string>{"card my-card"});
  prices.dram_gigabyte.reset();
  prices.nvme_terabyte.reset();
  const std::vector<std::string> three = {"card my-card", "memory", "drive"};
  EXPECT_EQ(unpriced_parts(prices, machine), three);
  prices.hosts.clear();
  machine.nvme.bytes = 0;
  const std::vector<std::string> other = {"card my-card", "host desktop", "memory"};
  EXPECT_EQ(unpriced_parts(prices, machine), other);
}

}  // namespace
}  // namespace penstock::sim
