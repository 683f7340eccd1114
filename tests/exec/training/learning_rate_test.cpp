// Schedules of the learning rate, by values computed by hand.
#include "exec/training/learning_rate.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::exec {
namespace {

constexpr double kPeak = 8;

std::vector<double> rates(int warmup, const RateOptions& rate, const std::vector<int>& steps) {
  std::vector<double> result;
  for (const int step : steps) result.push_back(learning_rate_of_step(step, kPeak, warmup, rate));
  return result;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

TEST(LearningRate, ConstantStaysAfterWarmup) {
  EXPECT_EQ(rates(4, {}, {1, 2, 3, 4, 5, 1'000'000}), (std::vector<double>{2, 4, 6, 8, 8, 8}));
  EXPECT_EQ(rates(0, {}, {1, 2}), (std::vector<double>{8, 8}));
}

TEST(LearningRate, LinearGoesFromTheEndOfWarmupToTheLastStep) {
  // Steps 2 to 10 are eighths of the way from 8 to 4.
  const RateOptions rate{RateSchedule::linear, 10, 4, 0};
  EXPECT_EQ(rates(2, rate, {1, 2, 3, 6, 9, 10, 11, 1'000'000}), (std::vector<double>{4, 8, 7.5, 6, 4.5, 4, 4, 4}));
  // Without a warm-up the first step has the peak: steps 1 to 9 are eighths.
  EXPECT_EQ(rates(0, {RateSchedule::linear, 9, 0, 0}, {1, 2, 5, 9}), (std::vector<double>{8, 7, 4, 0}));
}

TEST(LearningRate, CosineIsHalfAWave) {
  // A quarter of the way: (1 + cos 45 degrees) / 2 = 0.8535533905932737 of what lies between 8 and 4.
  const RateOptions rate{RateSchedule::cosine, 10, 4, 0};
  expect_near(rates(2, rate, {1, 2, 4, 6, 8, 10, 11}),
              {4, 8, 4 + 4 * 0.8535533905932737, 6, 4 + 4 * 0.14644660940672627, 4, 4});
}

TEST(LearningRate, WsdIsStableUntilItDecays) {
  const RateOptions rate{RateSchedule::wsd, 20, 0, 4};
  EXPECT_EQ(rates(2, rate, {1, 2, 10, 16, 17, 18, 19, 20, 21}), (std::vector<double>{4, 8, 8, 8, 6, 4, 2, 0, 0}));
}

TEST(LearningRate, LongRunsKeepTheirSteps) {
  const RateOptions rate{RateSchedule::linear, std::int64_t{1} << 40, 0, 0};
  EXPECT_NEAR(learning_rate_of_step(std::int64_t{1} << 39, kPeak, 0, rate), 4, 1e-9);
}

}  // namespace
}  // namespace penstock::exec
