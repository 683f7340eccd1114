// Each case states the system, then the shares that max-min fairness gives it and why.
#include "sim/engine/fluid.h"

#include <gtest/gtest.h>

#include <random>

namespace penstock::sim {
namespace {

constexpr Resource kA = kDram, kB = kLinkH2d, kC = kCores;

/// Demands by resource; everything else is 0.
ResourceVector uses(std::initializer_list<std::pair<Resource, double>> demands) {
  ResourceVector vector{};
  for (const auto& [resource, demand] : demands) vector[resource] = demand;
  return vector;
}

ResourceVector capacity(std::initializer_list<std::pair<Resource, double>> capacities) {
  ResourceVector vector = unlimited_resources();
  for (const auto& [resource, amount] : capacities) vector[resource] = amount;
  return vector;
}

std::vector<double> shares(const std::vector<ResourceVector>& demands, const ResourceVector& capacities,
                           const std::vector<double>& largest = {}) {
  std::vector<FluidOp> ops;
  for (std::size_t i = 0; i < demands.size(); ++i) ops.push_back({&demands[i], largest.empty() ? 1.0 : largest[i], 0});
  share_max_min(ops, capacities);
  std::vector<double> rates;
  for (const FluidOp& op : ops) rates.push_back(op.rate);
  return rates;
}

// x1 <= 1, 10 x1 <= 100. One op that asks for a tenth of the resource: its own speed is the limit.
TEST(Fluid, AnOpAloneRunsAtSoloSpeed) {
  EXPECT_EQ(shares({uses({{kA, 10}})}, capacity({{kA, 100}})), std::vector<double>{1});
}

// x1 <= 1, 200 x1 <= 100. The resource is the limit: half speed.
TEST(Fluid, AnOpThatAsksForTwiceTheResourceRunsAtHalfSpeed) {
  EXPECT_EQ(shares({uses({{kA, 200}})}, capacity({{kA, 100}})), std::vector<double>{0.5});
}

// 100 x1 + 50 x2 <= 75. Both slow down by the same factor, 75 / 150: the first gets 50, the second 25. Equal shares of
// bytes would have been 37.5 each.
TEST(Fluid, OpsThatShareOneResourceSlowDownAlike) {
  EXPECT_EQ(shares({uses({{kA, 100}}), uses({{kA, 50}})}, capacity({{kA, 75}})), (std::vector<double>{0.5, 0.5}));
}

// x1 <= 0.25, 60 x1 + 60 x2 <= 60. Even shares would be 0.5 each, but the first cannot use its own; the second gets
// what is left: (60 - 15) / 60.
TEST(Fluid, WhatASlowOpLeavesGoesToTheOthers) {
  EXPECT_EQ(shares({uses({{kA, 60}}), uses({{kA, 60}})}, capacity({{kA, 60}}), {0.25, 1}),
            (std::vector<double>{0.25, 0.75}));
}

// A: 40 x1 + 40 x2 + 40 x3 <= 60, B: 40 x1 <= 10. B is the tighter one (level 1/4) and holds x1; x2 and x3 then share
// the 60 - 10 that A has left: 50 / 80.
TEST(Fluid, AnOpHeldByATighterResourceFreesTheLooserOne) {
  EXPECT_EQ(shares({uses({{kA, 40}, {kB, 40}}), uses({{kA, 40}}), uses({{kA, 40}})}, capacity({{kA, 60}, {kB, 10}})),
            (std::vector<double>{0.25, 0.625, 0.625}));
}

// SimGrid's chain: op 1 crosses A and B, op 2 only A, op 3 only B; capacities 1 and 2, demands 1.
// A saturates first at 1/2: x1 = x2 = 1/2. B then has 1.5 left, more than x3 can take: x3 = 1.
TEST(Fluid, ALongRouteIsHeldAtItsTightestLink) {
  EXPECT_EQ(shares({uses({{kA, 1}, {kB, 1}}), uses({{kA, 1}}), uses({{kB, 1}})}, capacity({{kA, 1}, {kB, 2}})),
            (std::vector<double>{0.5, 0.5, 1}));
}

// Three resources, three steps of filling. A: x1 + x2 <= 1 (level 0.5); B: x2 + 2 x3 <= 2 (after x2 = 0.5: x3 = 0.75);
// C: 4 x4 <= 3.6 (0.9).
TEST(Fluid, LevelsRiseOneAfterTheOther) {
  const auto rates = shares({uses({{kA, 1}}), uses({{kA, 1}, {kB, 1}}), uses({{kB, 2}}), uses({{kC, 4}})},
                            capacity({{kA, 1}, {kB, 2}, {kC, 3.6}}));
  EXPECT_DOUBLE_EQ(rates[0], 0.5);
  EXPECT_DOUBLE_EQ(rates[1], 0.5);
  EXPECT_DOUBLE_EQ(rates[2], 0.75);
  EXPECT_DOUBLE_EQ(rates[3], 0.9);
}

// 0 x1 + 5 x2 <= 0: who needs nothing of an absent resource runs, who needs it stands.
TEST(Fluid, AResourceOfCapacityZeroStopsItsUsers) {
  EXPECT_EQ(shares({uses({{kA, 0}}), uses({{kA, 5}})}, capacity({{kA, 0}})), (std::vector<double>{1, 0}));
}

// Max-min as it is defined: within all capacities, and every op is at its own limit or uses an exhausted resource on
// which nobody is faster. 2000 random systems.
TEST(Fluid, RandomSystemsAreFeasibleAndFair) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = 1 + random() % 8;
    std::vector<ResourceVector> demands(count, ResourceVector{});
    ResourceVector limits{};
    for (double& limit : limits) limit = 0.1 + uniform(random);
    std::vector<double> largest(count);
    for (std::size_t i = 0; i < count; ++i) {
      largest[i] = 0.2 + uniform(random);
      for (double& demand : demands[i]) demand = random() % 3 == 0 ? uniform(random) : 0;
    }
    const std::vector<double> rates = shares(demands, limits, largest);
    ResourceVector used{};
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t r = 0; r < used.size(); ++r) used[r] += demands[i][r] * rates[i];
    for (std::size_t r = 0; r < used.size(); ++r) ASSERT_LE(used[r], limits[r] * (1 + 1e-9)) << "round " << round;
    for (std::size_t i = 0; i < count; ++i) {
      bool held = rates[i] >= largest[i] * (1 - 1e-9);
      for (std::size_t r = 0; r < used.size() && !held; ++r) {
        if (demands[i][r] <= 0 || used[r] < limits[r] * (1 - 1e-9)) continue;
        held = true;
        for (std::size_t j = 0; j < count; ++j) held &= demands[j][r] <= 0 || rates[j] <= rates[i] * (1 + 1e-9);
      }
      ASSERT_TRUE(held) << "round " << round << ", op " << i << " could run faster";
    }
  }
}

}  // namespace
}  // namespace penstock::sim
