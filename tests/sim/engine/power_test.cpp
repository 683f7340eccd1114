#include "sim/engine/power.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

using Curve = std::vector<PowerPoint>;

// Points (0.5, 0) and (0.75, 0.4): none of the way at 0.5 and below, half of 0.4 at 0.625, then linear to all of it.
TEST(Power, ShareIsLinearBetweenThePoints) {
  EXPECT_DOUBLE_EQ(power_share(Curve{}, 0.3), 0.3);
  const Curve curve{{0.5, 0}, {0.75, 0.4}};
  EXPECT_DOUBLE_EQ(power_share(curve, 0.3), 0);
  EXPECT_DOUBLE_EQ(power_share(curve, 0.625), 0.2);
  EXPECT_DOUBLE_EQ(power_share(curve, 0.875), 0.7);
  EXPECT_DOUBLE_EQ(power_share(curve, 1), 1);
}

TEST(Power, WithoutMeasurementsThereIsNoCurve) { EXPECT_TRUE(power_curve({}, 0.1).empty()); }

TEST(Power, ASingleCurveServesAnyWork) {
  const Curve measured{{0.5, 0}, {0.75, 0.4}};
  for (const double slowdown : {0.0, 0.2}) {
    const Curve curve = power_curve(measured, slowdown);
    ASSERT_EQ(curve.size(), 2U);
    EXPECT_EQ(curve[1].duty, 0.75);
    EXPECT_EQ(curve[1].share, 0.4);
  }
}

// At 0.04: (0.8, 0). At 0.12: (0.6, 0.2), (0.8, 0.6). Work of 0.06 is a quarter of the way from the one to the other;
// at a duty of 0.6 the first curve is at 0 as well.
TEST(Power, WorkBetweenTwoMeasuredMixesLiesBetweenTheirCurves) {
  const Curve measured{{0.8, 0, 0.04}, {0.6, 0.2, 0.12}, {0.8, 0.6, 0.12}};
  const Curve curve = power_curve(measured, 0.06);
  ASSERT_EQ(curve.size(), 2U);
  EXPECT_EQ(curve[0].duty, 0.6);
  EXPECT_DOUBLE_EQ(curve[0].share, 0.05);
  EXPECT_EQ(curve[1].duty, 0.8);
  EXPECT_DOUBLE_EQ(curve[1].share, 0.15);
}

TEST(Power, WorkBeyondWhatWasMeasuredTakesTheNearestCurve) {
  const Curve measured{{0.8, 0, 0.04}, {0.8, 0.6, 0.12}};
  EXPECT_DOUBLE_EQ(power_share(power_curve(measured, 0.01), 0.8), 0);
  EXPECT_DOUBLE_EQ(power_share(power_curve(measured, 0.3), 0.8), 0.6);
}

// (0, 0), (0.8, 0.1) and (1, 1) are the hull; (0.8, 0.6) and (0.4, 0.3) lie above it.
TEST(Power, TheLeastShareLiesOnTheConvexHullOfAllCurves) {
  const Curve measured{{0.4, 0.3, 0.04}, {0.8, 0.1, 0.04}, {0.8, 0.6, 0.12}};
  EXPECT_DOUBLE_EQ(least_power_share(measured, 0.8), 0.1);
  EXPECT_DOUBLE_EQ(least_power_share(measured, 0.4), 0.05);
  EXPECT_DOUBLE_EQ(least_power_share(measured, 0.9), 0.55);
  EXPECT_DOUBLE_EQ(least_power_share(measured, 1), 1);
  EXPECT_DOUBLE_EQ(least_power_share({}, 0.8), 0.8);
}

}  // namespace
}  // namespace penstock::sim
