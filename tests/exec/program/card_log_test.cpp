// What the driver says of a card, from a library of its names to the lines of a report.
#include "exec/program/card_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/program/card_sensor.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

constexpr const char* kBus = "0000:41:00.0";

TEST(CardSensor, ReadsTheDriversLibraryAndTheCardsOwnLanes) {
  const TemporaryFolder pci;
  std::filesystem::create_directory(pci.path() / "0000:41:00.0");
  pci.write("0000:41:00.0/max_link_width", "16\n");
  std::string why;
  const auto sensor = open_card_sensor(kBus, why, PENSTOCK_FAKE_NVML, pci.path());
  ASSERT_NE(sensor, nullptr) << why;
  const CardState now = sensor->read();
  EXPECT_EQ(now.sm_mhz, 1755);
  EXPECT_EQ(now.memory_mhz, 2619);
  EXPECT_EQ(now.watts, 449.5);
  EXPECT_EQ(now.limit_watts, 450);
  EXPECT_EQ(now.celsius, -1);  // the library refuses it
  EXPECT_EQ(now.held_down_by, kPowerLimit);
  EXPECT_EQ(now.link_generation, 4);
  EXPECT_EQ(now.link_lanes, 8);
  EXPECT_EQ(now.most_lanes, 8);
  EXPECT_EQ(now.card_lanes, 16);
}

TEST(CardSensor, SaysWhyThereIsNone) {
  std::string why;
  EXPECT_EQ(open_card_sensor(kBus, why, "libno-such-nvml.so.1"), nullptr);
  EXPECT_MENTIONS(why, "libno-such-nvml.so.1");
  EXPECT_EQ(open_card_sensor("X", why, PENSTOCK_FAKE_NVML), nullptr);
  EXPECT_MENTIONS(why, "knows no card at X");
}

CardState state(double mhz, double watts, std::uint64_t held_down_by, int generation) {
  CardState s;
  s.sm_mhz = mhz;
  s.watts = watts;
  s.limit_watts = 450;
  s.held_down_by = held_down_by;
  s.link_generation = generation;
  s.most_generation = 4;
  s.link_lanes = s.most_lanes = 8;
  s.card_lanes = 16;
  return s;
}

TEST(CardSummary, MeansSharesAndTheLinkAtWork) {
  // Idle before the first step: a slow link, which is none of its faults.
  const CardSummary s = summarize({state(300, 30, kIdle, 1), state(1800, 450, kPowerLimit, 4),
                                   state(1500, 450, kPowerLimit | kHot, 4), state(2400, 430, 0, 4)});
  EXPECT_EQ(s.sm_mhz.mean, 1500);
  EXPECT_EQ(s.sm_mhz.least, 300);
  EXPECT_EQ(s.watts.mean, 340);
  EXPECT_FALSE(s.celsius.known);
  EXPECT_EQ(s.held_down, (std::vector<std::pair<Throttle, double>>{{kPowerLimit, 0.5}, {kHot, 0.25}}));
  EXPECT_EQ(s.link_generation, 4);
  EXPECT_TRUE(s.lacks_lanes());
  const std::string text = card_text(s);
  EXPECT_MENTIONS(text, "1500 MHz (300 to 2400), 340 W (30 to 450; limit 450), mean of 4 readings");
  EXPECT_MENTIONS(text, "clocks held down by its power limit in 50 % of the readings");
  EXPECT_MENTIONS(text, "link PCIe 4 x8\n");
  EXPECT_MENTIONS(text, "8 of 16 lanes: copies take up to 2 times as long");
  const nlohmann::ordered_json json = card_json(s);
  EXPECT_EQ(json["held_down"]["power_limit"], 0.5);
  EXPECT_EQ(json["link"]["lacks_lanes"], true);
  EXPECT_FALSE(json.contains("celsius"));
}

TEST(CardSummary, AWholeLinkIsNotCalledOutAndNothingKnownIsNothingSaid) {
  CardState whole = state(1755, 500, 0, 5);
  whole.link_lanes = whole.most_lanes = 16;
  whole.most_generation = 5;
  EXPECT_FALSE(summarize({whole}).lacks_lanes());
  EXPECT_EQ(card_text(summarize({whole})).find("lanes"), std::string::npos);
  EXPECT_EQ(card_text(summarize({})), "");
  EXPECT_EQ(card_text(summarize({CardState()})), "");
  EXPECT_FALSE(summarize({CardState()}).lacks_lanes());
}

TEST(CardSummary, ALinkThatStaysSlowAtWorkIsCalledOut) {
  const std::string text = card_text(summarize({state(300, 30, kIdle, 1), state(1800, 450, 0, 2)}));
  EXPECT_MENTIONS(text, "link PCIe 2 x8\n");
  EXPECT_MENTIONS(text, "card and slot can do generation 4: copies take up to 4 times as long");
  EXPECT_EQ(card_text(summarize({state(1800, 450, 0, 4)})).find("can do generation"), std::string::npos);
}

class CountingSensor : public CardSensor {
 public:
  CardState read() override {
    CardState now;
    now.watts = ++count_;
    return now;
  }

 private:
  int count_ = 0;
};

TEST(CardLog, ReadsAtOnceAndEndsWhenAsked) {
  CardLog log(std::make_unique<CountingSensor>(), std::chrono::hours(1));
  const CardSummary summary = log.finish();
  EXPECT_EQ(summary.readings, 1);
  EXPECT_EQ(summary.watts.mean, 1);
  EXPECT_EQ(log.finish().readings, 1);
}

}  // namespace
}  // namespace penstock::exec
