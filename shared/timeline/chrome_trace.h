// Chrome trace JSON (opens in Perfetto): each timeline is a process, each lane a thread, flow arrows for edges that
// bound, and a counter for each tier's live bytes (memory_curve.h; of very many changes the highest of short spans).
//
// Times are whole nanoseconds, and slices of one thread never overlap: a viewer would draw them as nested. Where the
// clocks of a measured timeline let an op start before the one before it on its lane has ended, it is cut there.
#pragma once

#include <filesystem>
#include <vector>

#include "shared/timeline/timeline.h"

namespace penstock {

/// A timeline and the schedule that it is of.
struct TracedTimeline {
  const Schedule* schedule;
  const Timeline* timeline;
};

void write_chrome_trace(const std::vector<TracedTimeline>& timelines, const std::filesystem::path& path);

}  // namespace penstock
