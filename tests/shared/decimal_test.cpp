#include "shared/decimal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace penstock {

std::from_chars_result decimal_by_strtod(std::string_view text, double& value);  // shared/decimal_strtod.cpp

namespace {

/// Where both implementations end, what they report and every bit that they read.
void expect_alike(std::string_view text) {
  double one = -7, other = -7;
  const std::from_chars_result chars = decimal_from_chars(text, one), strtod = decimal_by_strtod(text, other);
  EXPECT_EQ(chars.ptr - text.data(), strtod.ptr - text.data()) << text;
  EXPECT_EQ(chars.ec, strtod.ec) << text;
  EXPECT_EQ(std::memcmp(&one, &other, sizeof one), 0) << text << ": " << one << " and " << other;
}

TEST(Decimal, ReadsWhatStandsThereAndNoMore) {
  double value = 0;
  const std::string_view text = "24.5e-1GiB";
  const std::from_chars_result read = decimal_by_strtod(text, value);
  EXPECT_EQ(value, 2.45);
  EXPECT_EQ(read.ptr, text.data() + 7);
}

TEST(Decimal, IsTheSameWhicheverFileIsCompiled) {
  for (const char* text : {"24",
                           "0.1",
                           ".5",
                           "5.",
                           "1e3",
                           "1E+3 GB",
                           "1e",
                           "1e+",
                           "1e5x",
                           "1.2.3",
                           "0x10",
                           "0x1p9",
                           " 1",
                           "+1",
                           "-3",
                           "-",
                           ".",
                           "",
                           "e5",
                           "GB",
                           "1,5",
                           "00012",
                           "123456789012345678901234567890",
                           "0.1000000000000000055511151231257827",
                           "4.9e-324",
                           "2.2250738585072011e-308",
                           "1.7976931348623157e308",
                           "1.8e308",
                           "1e400",
                           "1e-400",
                           "0e400",
                           "0.0000000000",
                           "1e99999999999999999999"})
    expect_alike(text);
}

TEST(Decimal, EndsWhereItsTextEnds) {
  const std::string whole = "12345";
  double value = 0;
  decimal_by_strtod(std::string_view(whole).substr(0, 2), value);
  EXPECT_EQ(value, 12);
}

}  // namespace
}  // namespace penstock
