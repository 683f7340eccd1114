#include "exec/optimizer/thread_team.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(ForRanges, CutsAtMultiplesOfTheGranule) {
  EXPECT_EQ(ranges_of(100, 10, 3), (Ranges{{0, 30}, {30, 60}, {60, 100}}));  // 10 granules: 3, 3, 4
  EXPECT_EQ(ranges_of(95, 10, 2), (Ranges{{0, 50}, {50, 95}}));
}

TEST(ForRanges, NeverUsesMoreThreadsThanGranules) {
  EXPECT_EQ(ranges_of(15, 10, 8), (Ranges{{0, 10}, {10, 15}}));
  EXPECT_EQ(ranges_of(5, 10, 4), (Ranges{{0, 5}}));
  EXPECT_EQ(ranges_of(5, 10, 0), (Ranges{{0, 5}}));
  EXPECT_EQ(ranges_of(0, 10, 4), (Ranges{{0, 0}}));
}

TEST(ForRanges, RunsOnDifferentThreadsAndAgain) {
  for (int round = 0; round < 100; ++round) {
    std::vector<std::thread::id> ids(4);
    for_ranges(4, 1, 4, [&](std::int64_t begin, std::int64_t) {
      ids[static_cast<std::size_t>(begin)] = std::this_thread::get_id();
    });
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
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
