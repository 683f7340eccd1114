// The proof that the planes lose nothing: all 2^32 patterns.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "exec/optimizer/thread_team.h"
#include "tests/exec/optimizer/plane_patterns.h"

namespace penstock::exec {
namespace {

TEST(Planes, EveryPatternComesBack) {
  std::atomic<std::int64_t> wrong = 0;
  for_ranges(std::int64_t{1} << 32, 1024, 2, [&wrong](std::int64_t begin, std::int64_t end) {
    // Runs of 2^10 patterns with 32-bit counters: this is what a compiler vectorises.
    std::int64_t count = 0;
    for (std::int64_t run = begin; run < end; run += 1024) {
      std::uint32_t failures = 0;
      for (std::uint32_t i = 0; i < 1024; ++i)
        failures += plane_pattern_holds(static_cast<std::uint32_t>(run) + i) ? 0U : 1U;
      count += failures;
    }
    wrong += count;
  });
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace penstock::exec
