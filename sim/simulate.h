// The simulator: a schedule, a machine, and what it will cost.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/timeline/stalls.h"
#include "shared/timeline/timeline.h"

namespace penstock::sim {

struct Bounds {
  double same_traffic_seconds = 0;  // no schedule with the same ops beats this: the busiest lane or resource
  std::string binding;              // which one: "lane compute", "dram", "link h2d", ...
  double any_schedule_seconds = 0;  // model FLOPs at the machine's matmul rate
};

struct Prediction {
  double step_seconds = 0;             // steady state: mean over the repeating period
  int period_steps = 1;                // steps after which the relative state repeats
  double first_step_seconds = 0;       // start of the run to the end of the first last-backward
  std::vector<double> warmup_periods;  // until steady
  double tokens_per_second = 0;
  double model_flops = 0, executed_flops = 0;  // per step; each throughput says which
  Timeline timeline;                           // steady steps (at least 3 periods), warmup_steps = 0
  StallReport stalls;
  std::vector<CriticalPart> critical;
  std::vector<double> lane_busy_seconds;
  std::vector<TierMemory> memory;
  Bounds bounds;
};

struct SimulateOptions {
  int max_steps = 64;           // gives up looking for a period after this many, and says so
  bool record_timeline = true;  // timeline, stalls, critical path: the planner does not need them
  bool count_memory = true;     // memory and the timeline's peaks: nor these, once capacities are checked
};

/// REQUIRES: a schedule that check_schedule accepts.
Prediction simulate(const Schedule& schedule, const Machine& machine, const SimulateOptions& options = {});

}  // namespace penstock::sim
