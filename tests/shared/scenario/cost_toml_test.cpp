#include <gtest/gtest.h>

#include "shared/scenario/cost_keys.h"
#include "shared/toml_reader.h"
#include "tests/shared/error_text.h"

namespace penstock {
namespace {

CostKeys read(const std::string& text) { return read_cost(parse_toml(text, "s.toml")); }
std::string refusal(const std::string& text) {
  return error_text([&] { read("[cost]\n" + text); });
}

TEST(CostToml, AnAmountOfTokensOrOfEpochs) {
  EXPECT_FALSE(read("").tokens);
  EXPECT_EQ(read("[cost]\ntokens = \"10B\"\n").tokens, 10'000'000'000);
  EXPECT_EQ(read("[cost]\ntokens = \"10B\"\n").amount, "10B tokens");
  EXPECT_EQ(read("[cost]\ntokens = 1234\n").tokens, 1234);
  EXPECT_EQ(read("[cost]\nepochs = 3\ndata_tokens = \"50M\"\n").tokens, 150'000'000);
  EXPECT_EQ(read("[cost]\nepochs = 3\ndata_tokens = \"50M\"\n").amount, "3 epochs of 50M tokens");
  EXPECT_EQ(read("[cost]\nepochs = 0.5\ndata_tokens = 333\n").tokens, 167);  // 166.5
}

TEST(CostToml, ReadsWhatAnHourCosts) {
  const CostKeys cost = read(
      "[cost]\ntokens = \"1B\"\nrent = 2.5\nprice = 3000\nlife = 3\nelectricity = 0.31\n"
      "watts = \"0.6 kW\"\n");
  EXPECT_EQ(cost.rent, 2.5);
  EXPECT_EQ(cost.price, 3000);
  EXPECT_EQ(cost.life, 3);
  EXPECT_EQ(cost.electricity, 0.31);
  EXPECT_EQ(cost.watts, 600);
}

TEST(CostToml, RefusesWhatMakesNoSense) {
  EXPECT_MENTIONS(refusal("tokens = 0\n"), "s.toml:2: [cost] tokens: expected at least 1");
  EXPECT_MENTIONS(refusal("tokens = -5\n"), "[cost] tokens: a count cannot be negative");
  EXPECT_MENTIONS(refusal("tokens = \"1e30\"\n"), "of at most");
  EXPECT_MENTIONS(refusal("tokens = nan\n"), "[cost] tokens: expected a count");
  EXPECT_MENTIONS(refusal("tokens = \"10 GB\"\n"), "expected a count with its unit");
  EXPECT_MENTIONS(refusal("tokens = 5\nepochs = 1\n"), "stands beside epochs or data_tokens");
  EXPECT_MENTIONS(refusal("epochs = 1\n"), "data_tokens: is missing");
  EXPECT_MENTIONS(refusal("data_tokens = 5\n"), "epochs: is missing");
  EXPECT_MENTIONS(refusal("epochs = 0\ndata_tokens = 5\n"), "epochs: expected a number from");
  EXPECT_MENTIONS(refusal("epochs = 1e6\ndata_tokens = \"1e6 T\"\n"), "at most 1e+18 tokens together");
  EXPECT_MENTIONS(refusal("rent = 2\n"), "tokens: is missing: hours and euros are of so many tokens");
  EXPECT_MENTIONS(refusal("tokens = 5\nrent = -1\n"), "[cost] rent: expected a number from 0");
  EXPECT_MENTIONS(refusal("tokens = 5\nrent = nan\n"), "[cost] rent: expected a number from 0");
  EXPECT_MENTIONS(refusal("tokens = 5\nlife = 0\n"), "[cost] life: expected a number from 0.01");
  EXPECT_MENTIONS(refusal("tokens = 5\nwatts = 600\n"), "[cost] watts: expected a power with its unit");
  EXPECT_MENTIONS(refusal("tokens = 5\nrents = 2\n"), "did you mean rent?");
}

}  // namespace
}  // namespace penstock
