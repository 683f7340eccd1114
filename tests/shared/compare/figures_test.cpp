#include "shared/compare/figures.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Figures, BytesAreDecimal) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(24.0 * (1 << 30)), "25.77 GB");  // 24 GiB
  EXPECT_EQ(bytes_text(3.84e12), "3.84 TB");
  EXPECT_EQ(bytes_text(-1.25e6), "-1.25 MB");
}

TEST(Figures, SecondsKeepFourDigits) {
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(4.25e-6), "4.2 us");  // printf rounding: to even on a tie
  EXPECT_EQ(seconds_text(0.0123456), "12.346 ms");
  EXPECT_EQ(seconds_text(1.5), "1.500 s");
  EXPECT_EQ(seconds_text(1234.56), "1234.6 s");
}

TEST(Figures, PercentIsSigned) {
  EXPECT_EQ(percent_text(0.0123), "+1.23 %");
  EXPECT_EQ(percent_text(-0.5), "-50.00 %");
}

TEST(Figures, TableAlignsAndHeadingsDoNotWiden) {
  EXPECT_EQ(table_text({{"", "a", "bb"}, {"a heading wider than any column"}, {"  x", "1.5", "2"}}),
            "       a  bb\n"
            "a heading wider than any column\n"
            "  x  1.5   2\n");
}

}  // namespace
}  // namespace penstock
