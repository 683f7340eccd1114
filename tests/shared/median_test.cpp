#include "shared/median.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Median, IsTheMiddleInWhateverOrder) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 100, 4, 2}), 4);
}

TEST(Median, OfAnEvenCountIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({1, 4}), 2.5);
  EXPECT_EQ(median({10, 1, 2, 8}), 5);  // of 2 and 8, not either
  EXPECT_EQ(median({1, 1, 3, 100}), 2);
}

TEST(Median, OfNothingIsZero) { EXPECT_EQ(median({}), 0); }

}  // namespace
}  // namespace penstock
