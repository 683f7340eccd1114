// Hours and euros by hand.
#include "sim/money/bill.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/shared/error_text.h"

namespace penstock::sim {
namespace {

/// 1 B tokens, 100,000 a step, 18 s a step: 10,000 steps, 50 h. The step may be a fifth shorter or longer: predicted
/// too slow by 25 % it takes 18 / 1.25 = 14.4 s, too fast by 20 % 18 / 0.8 = 22.5 s.
constexpr ErrorRange kError{-0.2, 0.25};

CostKeys billion() {
  CostKeys cost;
  cost.tokens = 1'000'000'000;
  cost.amount = "1B tokens";
  return cost;
}

Machine machine() {
  Machine machine;
  machine.card = "cards/rtx4090.toml";
  machine.host = "hosts/desktop.toml";
  machine.gpu.watts = 450;
  machine.host_watts = 150;
  machine.dram_bytes = 64'000'000'000;
  return machine;
}

std::optional<Bill> bill(const CostKeys& cost, const PartPrices& prices = {}) {
  return make_bill(cost, prices, machine(), 100'000, 18, kError);
}

TEST(Bill, HoursAreStepsTimesTheStep) {
  EXPECT_FALSE(bill(CostKeys{}));
  const Bill result = *bill(billion());
  EXPECT_EQ(result.steps, 10'000);
  EXPECT_DOUBLE_EQ(result.hours, 50);
  EXPECT_DOUBLE_EQ(result.hours_range.low, 40);
  EXPECT_DOUBLE_EQ(result.hours_range.high, 62.5);
  EXPECT_FALSE(result.rented);  // no price is known
  EXPECT_FALSE(result.bought);
  CostKeys more = billion();
  more.tokens = 1'000'000'001;
  EXPECT_EQ(bill(more)->steps, 10'001);  // the last step is a whole one
}

TEST(Bill, RentIsPerHour) {
  CostKeys cost = billion();
  cost.rent = 2.4;
  const Way way = *bill(cost)->rented;
  EXPECT_DOUBLE_EQ(way.euros, 120);
  EXPECT_DOUBLE_EQ(way.range.low, 96);
  EXPECT_DOUBLE_EQ(way.range.high, 150);
}

TEST(Bill, APriceIsSpreadOverItsLifeAndElectricityAdded) {
  CostKeys cost = billion();
  cost.price = 3506.4;  // 0.1 EUR for each of the 35,064 h of four years
  cost.life = 4;
  cost.electricity = 0.25;  // 600 W: 0.15 EUR/h
  const Way way = *bill(cost)->bought;
  EXPECT_DOUBLE_EQ(way.euros_per_hour, 0.25);
  EXPECT_DOUBLE_EQ(way.euros, 12.5);
  EXPECT_DOUBLE_EQ(way.range.high, 0.25 * 62.5);
  cost.watts = 1000;
  EXPECT_DOUBLE_EQ(bill(cost)->bought->euros_per_hour, 0.1 + 0.25);
  cost.life = 2;
  EXPECT_DOUBLE_EQ(bill(cost)->bought->euros_per_hour, 0.2 + 0.25);
}

TEST(Bill, ElectricityOfAMachineWhosePowerNobodyKnowsIsLeftOutAndSaid) {
  CostKeys cost = billion();
  cost.price = 3506.4;
  Machine unknown = machine();
  unknown.host_watts = 0;
  const Way way = *make_bill(cost, {}, unknown, 100'000, 18, kError)->bought;
  EXPECT_DOUBLE_EQ(way.euros_per_hour, 0.1);
  EXPECT_MENTIONS(way.words, "without electricity: give --watts");
}

TEST(Bill, WhatTheUserSaysGoesBeforeTheFileOfPrices) {
  PartPrices prices;
  prices.cards["rtx4090"] = {2000, "a shop", "2026-01-01", false, false};
  prices.hosts["desktop"] = {1000, "a shop", "2026-02-01", false, false};
  prices.dram_gigabyte = Sourced{10, "a shop", "2026-03-01", true, false};
  prices.rents["rtx4090"] = {0.5, "a cloud", "2026-01-01", false, false};
  prices.electricity = Sourced{0.2, "a bill", "2026-01-01", false, false};
  prices.life_years = 5;
  CostKeys cost = billion();
  // 2000 + 1000 + 64 x 10 = 3640 EUR over 5 x 8766 h, and 0.6 kW x 0.2 EUR.
  const Bill by_file = *bill(cost, prices);
  EXPECT_DOUBLE_EQ(by_file.bought->euros_per_hour, 3640 / 43830.0 + 0.12);
  EXPECT_TRUE(by_file.bought->assumed);  // the memory's price was not seen
  EXPECT_DOUBLE_EQ(by_file.rented->euros, 25);
  EXPECT_FALSE(by_file.rented->assumed);
  cost.price = 4383;
  cost.rent = 1;
  EXPECT_DOUBLE_EQ(bill(cost, prices)->bought->euros_per_hour, 0.1 + 0.12);
  EXPECT_FALSE(bill(cost, prices)->bought->assumed);
  EXPECT_DOUBLE_EQ(bill(cost, prices)->rented->euros, 50);
}

TEST(Bill, TextAndJsonSayTheSame) {
  CostKeys cost = billion();
  cost.rent = 2.4;
  const std::string text = bill_text(bill(cost));
  EXPECT_MENTIONS(text, "training            50 h (2.1 days), 40.0 h to 62 h (2.6 days): 1B tokens in 10,000 steps\n");
  EXPECT_MENTIONS(text, "rented              120 EUR, 96.00 EUR to 150 EUR; 2.4 EUR/h: given\n");
  EXPECT_MENTIONS(
      text,
      "bought              no price is known of card rtx4090 and host desktop and memory; give --price, EUR of the machine\n");
  const nlohmann::ordered_json json = bill_json(*bill(cost));
  EXPECT_EQ(json.at("hours"), 50);
  EXPECT_EQ(json.at("hours_range"), nlohmann::ordered_json::array({40.0, 62.5}));
  EXPECT_EQ(json.at("rented").at("euros"), 120);
  EXPECT_FALSE(json.contains("bought"));
}

TEST(Bill, TimesOfMinutesToYears) {
  EXPECT_EQ(hours_text(0.25), "15 min");
  EXPECT_EQ(hours_text(12.34), "12.3 h");
  EXPECT_EQ(hours_text(480), "480 h (20.0 days)");
  EXPECT_EQ(hours_text(87660), "87660 h (10.0 years)");
  EXPECT_EQ(euros_text(0.344), "0.34 EUR");
  EXPECT_EQ(euros_text(1234567), "1,234,567 EUR");
  EXPECT_EQ(euros_text(1e300), "1e+300 EUR");
}

}  // namespace
}  // namespace penstock::sim
