// Lays a predicted and a measured timeline side by side (DESIGN.md section 7).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/stalls.h"
#include "shared/timeline/timeline.h"

namespace penstock {

struct Pair {
  double predicted = 0;
  double measured = 0;
  double difference() const { return predicted - measured; }
};

struct LaneComparison {
  std::string lane;
  Pair busy_seconds;
  double error = 0;  // |difference| / measured step
};

struct TierComparison {
  TierKind tier = TierKind::hbm;
  Pair peak_bytes;
};

struct OpError {
  int op = 0;
  Pair seconds;                // median over steady steps
  double share_of_step = 0;    // signed difference / measured step
};

struct Comparison {
  Pair step_seconds;
  double step_error = 0;       // |difference| / measured
  Pair stall_seconds;
  double stall_error = 0;      // |difference| / measured step
  double measured_spread = 0;  // run-to-run: (max - min) / median of the measured periods
  std::array<Pair, kStallCauses> stall_by_cause{};
  std::array<Pair, 4> phase_seconds{};  // by Phase: compute-lane busy time
  std::vector<LaneComparison> lanes;
  std::vector<TierComparison> tiers;
  std::vector<OpError> worst_ops;       // ten that contribute most
};

/// Throws InputError if the schedule hashes differ or either has fewer than 2 steady periods.
Comparison compare_timelines(const Schedule& schedule, const Timeline& predicted, const Timeline& measured);

std::string comparison_text(const Schedule& schedule, const Comparison& comparison);  // the table for a terminal
std::string comparison_json(const Schedule& schedule, const Comparison& comparison);

}  // namespace penstock
