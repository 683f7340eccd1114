#include "shared/scenario/keep_layers_text.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

TEST(KeepLayersText, ReadsRangesCountsAndOpenEnds) {
  const std::vector<LayerKeep> layers =
      parse_keep_layers(" 1-8 input_attention dram,9-31*12 everything dram , 32 everything hbm, 33- input hbm", "x");
  const std::vector<LayerKeep> expected{{1, 8, 0, Keep::input_attention, TierKind::dram},
                                        {9, 31, 12, Keep::everything, TierKind::dram},
                                        {32, 32, 0, Keep::everything, TierKind::hbm},
                                        {33, -1, 0, Keep::input, TierKind::hbm}};
  EXPECT_EQ(layers, expected);
  EXPECT_EQ(parse_keep_layers(keep_layers_text(layers), "x"), layers);
  EXPECT_TRUE(parse_keep_layers("  ", "x").empty());
}

TEST(KeepLayersText, SaysWhatIsWrongAndWhere) {
  const auto text = [](const char* given) { return error_text([&] { parse_keep_layers(given, "s.toml:3: k"); }); };
  EXPECT_NE(text("0-3 input hbm").find("s.toml:3: k: expected a number from 1 to 4096 at \"0-3 input hbm\""),
            std::string::npos);
  EXPECT_NE(text("8-3 input hbm").find("does not end before it begins (8-3)"), std::string::npos);
  EXPECT_NE(text("1-3 inputs hbm")
                .find("expected one of input, input_context, input_attention, everything at \"inputs hbm\""),
            std::string::npos);
  EXPECT_NE(text("1-3 input disk").find("expected one of hbm, dram, nvme at \"disk\""), std::string::npos);
  EXPECT_NE(text("1-3 input hbm 4 input hbm").find("expected a comma"), std::string::npos);
  EXPECT_NE(text("1-3").find("at \"the end\""), std::string::npos);
  EXPECT_NE(text("99999999999999 input hbm").find("expected a number"), std::string::npos);
}

}  // namespace
}  // namespace penstock
