#include "shared/units.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

template <typename Parse>
std::string refusal(Parse parse, std::string_view text) {
  return error_text([&] { parse(text, "x.toml:3: [gpu] hbm"); });
}

TEST(Units, DecimalAndBinaryBytesAreNeverMixed) {
  EXPECT_EQ(parse_bytes("1 GB", ""), 1'000'000'000);
  EXPECT_EQ(parse_bytes("1 GiB", ""), 1'073'741'824);
  EXPECT_EQ(parse_bytes("1 kB", ""), 1000);
  EXPECT_EQ(parse_bytes("1 KiB", ""), 1024);
  EXPECT_EQ(parse_bytes("3 MB", ""), 3'000'000);
  EXPECT_EQ(parse_bytes("3 MiB", ""), 3'145'728);
  EXPECT_EQ(parse_bytes("1.5 TB", ""), 1'500'000'000'000);
  EXPECT_EQ(parse_bytes("2 TiB", ""), 2'199'023'255'552);
  EXPECT_EQ(parse_bytes("7 B", ""), 7);
  EXPECT_EQ(parse_bytes("0 B", ""), 0);
}

TEST(Units, ASpaceBeforeTheUnitIsOptional) { EXPECT_EQ(parse_bytes("24GiB", ""), parse_bytes("24 GiB", "")); }

TEST(Units, SizesAreRoundedToTheNearestByte) { EXPECT_EQ(parse_bytes("0.1 GiB", ""), 107'374'182); }  // 107374182.4

TEST(Units, RatesAndTimes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("1008 GB/s", ""), 1.008e12);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1 GiB/s", ""), 1073741824.0);
  EXPECT_DOUBLE_EQ(parse_flops("989 TFLOP/s", ""), 9.89e14);
  EXPECT_DOUBLE_EQ(parse_flops("1.2 PFLOP/s", ""), 1.2e15);
  EXPECT_DOUBLE_EQ(parse_seconds("4 us", ""), 4e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("250 ns", ""), 2.5e-7);
  EXPECT_DOUBLE_EQ(parse_seconds("3 s", ""), 3.0);
  EXPECT_DOUBLE_EQ(parse_rate("4.73 Gparam/s", ""), 4.73e9);
}

TEST(Units, WattsAndCounts) {
  EXPECT_DOUBLE_EQ(parse_watts("450 W", ""), 450);
  EXPECT_DOUBLE_EQ(parse_watts("1.2kW", ""), 1200);
  EXPECT_EQ(parse_count("300000", ""), 300'000);
  EXPECT_EQ(parse_count("128k", ""), 128'000);
  EXPECT_EQ(parse_count("1.5e9", ""), 1'500'000'000);
  EXPECT_EQ(parse_count("10 B", ""), 10'000'000'000);
  EXPECT_EQ(parse_count("15T", ""), 15'000'000'000'000);
  EXPECT_EQ(refusal(parse_count, "0.2"), "x.toml:3: [gpu] hbm: expected at least 1; found \"0.2\"");
  EXPECT_EQ(parse_count("1.0005M", ""), 1'000'500);
  EXPECT_EQ(parse_count("0.3M", ""), 300'000);
  EXPECT_EQ(refusal(parse_count, "1.5"), "x.toml:3: [gpu] hbm: expected a whole number; found \"1.5\"");
  EXPECT_NE(refusal(parse_count, "1.0005k"), "");
  EXPECT_NE(refusal(parse_count, "10 GB"), "");
  EXPECT_NE(refusal(parse_count, "1e19"), "");
  EXPECT_NE(refusal(parse_watts, "450"), "");
}

TEST(Units, AMissingUnitIsAnErrorThatNamesPlaceValueAndUnits) {
  EXPECT_EQ(
      refusal(parse_bytes, "24"),
      "x.toml:3: [gpu] hbm: expected a size with its unit (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB), such as \"24 GiB\"; "
      "found \"24\"");
  EXPECT_EQ(refusal(parse_seconds, "4"),
            "x.toml:3: [gpu] hbm: expected a time with its unit (ns, us, ms, s), such as \"4 us\"; found \"4\"");
}

TEST(Units, AnotherKindsUnitIsAnError) {
  EXPECT_NE(refusal(parse_bandwidth, "24 GB").find("GB/s"), std::string::npos);
  EXPECT_NE(refusal(parse_bytes, "24 GB/s"), "");
  EXPECT_NE(refusal(parse_flops, "989 TFLOPS"), "");
  EXPECT_NE(refusal(parse_rate, "4.7 G/s"), "");
}

TEST(Units, SpellingIsStrict) {
  for (const char* text : {"24 gib", "24 gb", "24 Gb", "24 GBs", "24 GiB ", " 24 GiB", "24\tGiB", "GiB", "", "+24 GiB",
                           "0x18 GiB", "24,5 GiB", "24 GiB GiB", ".5 GiB", "1e GiB", "24 G iB"})
    EXPECT_NE(refusal(parse_bytes, text), "") << text;
}

TEST(Units, NegativeAbsurdAndNonFiniteAreRefused) {
  EXPECT_EQ(refusal(parse_bytes, "-1 GiB"), "x.toml:3: [gpu] hbm: a size cannot be negative; found \"-1 GiB\"");
  EXPECT_NE(refusal(parse_bytes, "1e7 TB").find("at most"), std::string::npos);  // 1e19 bytes
  EXPECT_NE(refusal(parse_bytes, "1e400 B").find("at most"), std::string::npos);
  EXPECT_NE(refusal(parse_bytes, "nan GiB"), "");
  EXPECT_NE(refusal(parse_bytes, "inf GiB"), "");
  EXPECT_EQ(parse_bytes("1e6 TB", ""), 1'000'000'000'000'000'000);  // the largest
}

TEST(Units, LongTextIsCutInTheMessage) { EXPECT_LT(refusal(parse_bytes, std::string(100'000, '9')).size(), 300u); }

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format_bytes_gib(24.0 * 1073741824), "24.00 GiB");
  EXPECT_EQ(format_bytes_gib(24e9), "22.35 GiB");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(24e9), "22.35 GiB");
  EXPECT_EQ(format_seconds(4.2e-6), "4.2 us");
  EXPECT_EQ(format_seconds(0.8125), "812.5 ms");
  EXPECT_EQ(format_seconds(12.34), "12.34 s");
  EXPECT_EQ(format_seconds(123456), "123456 s");
  EXPECT_EQ(format_seconds(0), "0 ns");
  EXPECT_EQ(format_bandwidth(55.4e9), "55.4 GB/s");
  EXPECT_EQ(format_flops(687e12), "687.0 TFLOP/s");
  EXPECT_EQ(format_count(7'615'616'512), "7,615,616,512");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(-100'000), "-100,000");
}

}  // namespace
}  // namespace penstock
