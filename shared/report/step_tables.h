// Tables about a steady step: stalls by cause, busy lanes, memory by tier and phase; of one timeline or of two beside
// each other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/report/page.h"
#include "shared/report/timeline_view.h"
#include "shared/timeline/stalls.h"

namespace penstock {

/// Where several sides are compared, their labels head the columns.
struct StepSide {
  std::string label;
  std::string title;  // what the label stands for
  double step_seconds = 0;
  StallReport stalls;
  std::vector<std::pair<std::string, double>> lane_seconds;  // busy
};

void add_stall_table(ReportPage& page, const std::vector<StepSide>& sides);
void add_lane_table(ReportPage& page, const std::vector<StepSide>& sides);
/// `memory` is what add_timelines drew, so that the peaks are the chart's.
void add_memory_table(ReportPage& page, const std::vector<TimelineSide>& sides, const SidesMemory& memory);

}  // namespace penstock
