#include "exec/optimizer/thread_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::exec {
namespace {

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

Ranges ranges_of(std::int64_t elements, std::int64_t granule, int threads) {
  std::mutex mutex;
  Ranges ranges;
  for_ranges(elements, granule, threads, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ForRanges, CutsAtMultiplesOfTheGranuleEightRangesPerThread) {
  const Ranges ranges = ranges_of(995, 10, 2);  // 100 granules in 16 ranges: 6, 6, 6, 7, ...
  ASSERT_EQ(ranges.size(), 16U);
  EXPECT_EQ(ranges[0], (Ranges::value_type{0, 60}));
  EXPECT_EQ(ranges[3], (Ranges::value_type{180, 250}));
  EXPECT_EQ(ranges[15], (Ranges::value_type{930, 995}));
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i].first, ranges[i - 1].second);
}

TEST(ForRanges, NeverCutsAGranule) {
  EXPECT_EQ(ranges_of(95, 10, 8).size(), 10U);
  EXPECT_EQ(ranges_of(15, 10, 8), (Ranges{{0, 10}, {10, 15}}));
  EXPECT_EQ(ranges_of(5, 10, 4), (Ranges{{0, 5}}));
  EXPECT_EQ(ranges_of(0, 10, 4), (Ranges{{0, 0}}));
}

TEST(ForRanges, OneThreadHasOneRange) {
  EXPECT_EQ(ranges_of(100, 10, 1), (Ranges{{0, 100}}));
  EXPECT_EQ(ranges_of(100, 10, 0), (Ranges{{0, 100}}));
}

TEST(ForRanges, ASlowRangeHoldsUpNoOther) {
  for (int round = 0; round < 100; ++round) {
    std::mutex mutex;
    std::condition_variable ended;
    int others = 0;
    bool all = false;
    for_ranges(16, 1, 2, [&](std::int64_t begin, std::int64_t) {
      std::unique_lock lock(mutex);
      if (begin > 0) {
        ++others;
        ended.notify_all();
      } else {
        all = ended.wait_for(lock, std::chrono::minutes(1), [&] { return others == 15; });
      }
    });
    ASSERT_TRUE(all) << others << " of the 15 other ranges ran while the first did";
  }
}

TEST(ForRanges, RethrowsWhatAnyRangeThrewAndStaysUsable) {
  for (std::int64_t thrower = 0; thrower < 3; ++thrower) {
    try {
      for_ranges(3, 1, 3, [&](std::int64_t begin, std::int64_t) {
        if (begin == thrower) throw std::runtime_error("range " + std::to_string(begin));
      });
      FAIL() << "nothing thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "range " + std::to_string(thrower));
    }
    EXPECT_EQ(ranges_of(3, 1, 3).size(), 3U);
  }
}

/// Lanes have teams of their own: two callers at once do not disturb each other.
TEST(ForRanges, CallersAreIndependent) {
  std::vector<std::int64_t> sums(2, 0);
  const auto caller = [&sums](std::size_t index) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::int64_t> parts(3, 0);
      for_ranges(3, 1, 3,
                 [&parts](std::int64_t begin, std::int64_t end) { parts[static_cast<std::size_t>(begin)] = end; });
      sums[index] += parts[0] + parts[1] + parts[2];
    }
  };
  std::thread other(caller, 1);
  caller(0);
  other.join();
  EXPECT_EQ(sums, (std::vector<std::int64_t>{1200, 1200}));  // 200 rounds of 1 + 2 + 3
}

}  // namespace
}  // namespace penstock::exec
