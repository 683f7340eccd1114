#include "exec/optimizer/planes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "tests/exec/optimizer/plane_patterns.h"

namespace penstock::exec {
namespace {

/// 1 + 2^-8 lies half way between two bf16 values: hi rounds away from zero, to 1 + 2^-7, and lo's top bit says so.
TEST(Planes, TiesRoundAwayFromZero) {
  const PlanePair pair = split_planes(std::bit_cast<std::uint32_t>(1.0f + 0x1p-8f));
  EXPECT_EQ(pair.hi, 0x3F81);
  EXPECT_EQ(pair.lo, 0x8000);
  EXPECT_EQ(join_planes(pair.hi, pair.lo), 0x3F808000u);
}

/// The largest float rounds to infinity in bf16, and still comes back.
TEST(Planes, LargestFloatComesBackFromInfinity) {
  const PlanePair pair = split_planes(0x7F7FFFFFu);
  EXPECT_EQ(pair.hi, 0x7F80);
  EXPECT_EQ(join_planes(pair.hi, pair.lo), 0x7F7FFFFFu);
}

TEST(Planes, NansBecomeOne) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu, 0x7FC00000u}) {
    const PlanePair pair = split_planes(bits);
    EXPECT_EQ(join_planes(pair.hi, pair.lo), 0x7FC00000u) << std::hex << bits;
  }
}

/// A stride that is odd visits other low bits in every 2^16 patterns; the full set is planes_full_test.
TEST(Planes, SampleOfAllPatternsComesBack) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 997)
    ASSERT_TRUE(plane_pattern_holds(static_cast<std::uint32_t>(bits))) << std::hex << bits;
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f), 0x3F80);             // tie: to even, down
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3F82);   // tie: to even, up
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f + 0x1p-23f), 0x3F81);  // just above a tie
  EXPECT_EQ(round_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0x7F7FFFFFu)), 0x7F80);  // overflows to infinity
  EXPECT_EQ(bf16_from_bits(0xFFFFFFFFu), 0x7FFF);                       // NaN
  EXPECT_EQ(bf16_from_bits(0x00008001u), 1);                            // denormals too
}

}  // namespace
}  // namespace penstock::exec
