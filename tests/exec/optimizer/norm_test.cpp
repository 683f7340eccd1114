#include "exec/optimizer/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "exec/numerics/bf16.h"

namespace penstock::exec {
namespace {

/// norm.h's text, word by word.
double documented_tree(std::vector<double> level, bool first) {
  if (level.empty()) return 0;
  do {
    std::vector<double> next;
    level.resize((level.size() + 1023) / 1024 * 1024, 0.0);
    for (std::size_t leaf = 0; leaf < level.size(); leaf += 1024) {
      double lanes[32] = {};
      for (std::size_t lane = 0; lane < 32; ++lane)
        for (std::size_t j = lane; j < 1024; j += 32) {
          const double x = level[leaf + j];
          lanes[lane] = first ? std::fma(x, x, lanes[lane]) : lanes[lane] + x;
        }
      for (const std::size_t step : {16, 8, 4, 2, 1})
        for (std::size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
      next.push_back(lanes[0]);
    }
    level = next;
    first = false;
  } while (level.size() > 1);
  return level[0];
}

/// Magnitudes over 60 powers of two, so that every change of order shows.
std::vector<float> wild_values(std::size_t count) {
  std::mt19937 random(3);
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random() % 2000001) - 1000000.0f, static_cast<int>(random() % 60) - 40);
  return values;
}

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(SumOfSquares, IsTheDocumentedTreeWhateverTheThreads) {
  for (const std::size_t count : {1, 31, 33, 1023, 1024, 1025, 5000, 1024 * 1024 + 7}) {
    const std::vector<float> values = wild_values(count);
    const double expected = documented_tree(widened(values), true);
    for (int threads = 1; threads <= 4; ++threads)
      EXPECT_EQ(sum_of_squares_host(values.data(), ElementType::fp32, static_cast<std::int64_t>(count), threads),
                expected)
          << count << " elements, " << threads << " threads";
  }
}

TEST(SumOfSquares, ReadsBf16) {
  std::vector<std::uint16_t> values;
  std::vector<double> exact;
  for (const float value : wild_values(3001)) {
    values.push_back(round_to_bf16(value));
    exact.push_back(static_cast<double>(widen_bf16(values.back())));
  }
  EXPECT_EQ(sum_of_squares_host(values.data(), ElementType::bf16, 3001, 2), documented_tree(exact, true));
}

TEST(SumOfSquares, DoesNotDependOnAlignment) {
  const std::vector<float> values = wild_values(4000);
  const double expected = sum_of_squares_host(values.data(), ElementType::fp32, 4000, 1);
  for (std::size_t shift = 1; shift < 17; ++shift) {
    std::vector<float> shifted(shift, 0.0f);
    shifted.insert(shifted.end(), values.begin(), values.end());
    EXPECT_EQ(sum_of_squares_host(shifted.data() + shift, ElementType::fp32, 4000, 1), expected);
  }
}

/// 3^2 + 4^2; nothing is 0; the square of the largest float is finite in fp64; NaN and infinity come through.
TEST(SumOfSquares, Values) {
  const std::vector<float> values = {3.0f, -4.0f};
  EXPECT_EQ(sum_of_squares_host(values.data(), ElementType::fp32, 2, 1), 25.0);
  EXPECT_EQ(sum_of_squares_host(nullptr, ElementType::fp32, 0, 4), 0.0);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(sum_of_squares_host(&largest, ElementType::fp32, 1, 1),
            static_cast<double>(largest) * static_cast<double>(largest));
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(sum_of_squares_host(&nan, ElementType::fp32, 1, 1)));
  EXPECT_EQ(sum_of_squares_host(&infinity, ElementType::fp32, 1, 1), std::numeric_limits<double>::infinity());
}

/// Lane 0 of a leaf adds elements 0, 32, 64, ...: 2^54 first swallows the ones of its own lane, not those of the
/// others.
TEST(SumOfSquares, LanesAreAddedApart) {
  std::vector<float> values(1024, 1.0f);
  values[0] = 0x1p27f;
  // Lane 0: 2^54 + 31 ones, each lost (spacing 4, a tie or less rounds back). 31 lanes of 32, added in pairs to 992.
  EXPECT_EQ(sum_of_squares_host(values.data(), ElementType::fp32, 1024, 1), 0x1p54 + 992);
}

/// The norm is of what was written: 1 + 2^-9 is 1 in bf16.
TEST(FinishGradient, NormIsOfTheRoundedValues) {
  const std::vector<float> sum = {1.0f + 0x1p-9f, 2.0f};
  std::vector<std::uint16_t> out(2);
  EXPECT_EQ(finish_gradient_host(sum.data(), ElementType::fp32, nullptr, out.data(), ElementType::bf16, 2, 1), 5.0);
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0x3F80, 0x4000}));
}

TEST(FinishGradient, AddsTheTiedUseBeforeRounding) {
  const std::vector<float> sum = {1.0f, 3.0f}, tied = {0x1p-8f + 0x1p-20f, 1.0f};
  std::vector<std::uint16_t> out(2);
  const double squares =
      finish_gradient_host(sum.data(), ElementType::fp32, tied.data(), out.data(), ElementType::bf16, 2, 1);
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0x3F81, 0x4080}));  // just above the tie; 4
  EXPECT_EQ(squares, (1.0 + 0x1p-7) * (1.0 + 0x1p-7) + 16.0);
}

TEST(FinishGradient, WorksInPlaceWithTheSameBitsForAllThreads) {
  const std::vector<float> values = wild_values(10000), tied = wild_values(10000);
  std::vector<float> expected(10000);
  for (std::size_t i = 0; i < 10000; ++i) expected[i] = values[i] + tied[i];
  for (int threads = 1; threads <= 4; ++threads) {
    std::vector<float> sum = values;
    const double squares =
        finish_gradient_host(sum.data(), ElementType::fp32, tied.data(), sum.data(), ElementType::fp32, 10000, threads);
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(squares, documented_tree(widened(expected), true));
  }
  std::vector<std::uint16_t> halves(3000, round_to_bf16(0.5f));
  EXPECT_EQ(finish_gradient_host(halves.data(), ElementType::bf16, nullptr, halves.data(), ElementType::bf16, 3000, 2),
            750.0);
}

TEST(Accumulate, FirstOverwritesLaterAddInFp32) {
  const std::vector<float> part = {0x1p-8f, 0x1p-8f + 0x1p-20f};
  std::vector<float> sum = {std::nanf(""), std::nanf("")};  // never read by the first
  accumulate_host(part.data(), ElementType::fp32, sum.data(), ElementType::fp32, true, 2, 1);
  EXPECT_EQ(sum, part);
  std::vector<std::uint16_t> rounded = {0x3F80, 0x3F80};  // 1: the first sum is a tie, to even; the second is above it
  accumulate_host(part.data(), ElementType::fp32, rounded.data(), ElementType::bf16, false, 2, 1);
  EXPECT_EQ(rounded, (std::vector<std::uint16_t>{0x3F80, 0x3F81}));
  std::vector<float> wide = {1.0f, 2.0f};
  accumulate_host(rounded.data(), ElementType::bf16, wide.data(), ElementType::fp32, false, 2, 2);
  EXPECT_EQ(wide, (std::vector<float>{2.0f, 3.0f + 0x1p-7f}));
}

}  // namespace
}  // namespace penstock::exec
