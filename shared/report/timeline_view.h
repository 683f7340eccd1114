// Timelines as a page draws them (timeline.js): lanes of one or two timelines over one axis, aligned where a step ends,
// and the live bytes of each tier beneath. Two timelines may be of one schedule or of two, on two machines.
//
// What the page carries is small: ops and bars are numbers of few bytes (a schedule of 64,000 ops is about a megabyte),
// a few periods are drawn, fewer of a large schedule, and where one period has more bars than kMostBars the shortest
// neighbours of a lane are one bar. The page says what was left out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/report/page.h"
#include "shared/timeline/memory_curve.h"
#include "shared/timeline/timeline.h"

namespace penstock {

inline constexpr int kMostPeriods = 3;
inline constexpr std::size_t kMostBars = 150'000;  // of one timeline

struct TimelineSide {
  std::string label;         // a word or two, "predicted"
  std::string title;         // for screen readers, "qwen2.5-7b on H200"
  const Schedule* schedule;  // both REQUIRE what memory_curves does
  const Timeline* timeline;
  std::vector<TierMemory> memory;  // with what arenas may take as capacities
  double step_seconds = 0;
};

/// What is live in the drawn part, by side, then as schedule.tiers.
using SidesMemory = std::vector<std::vector<LiveMemory>>;

/// REQUIRES: one or two sides, each with a steady boundary.
SidesMemory add_timelines(ReportPage& page, const std::vector<TimelineSide>& sides);

}  // namespace penstock
