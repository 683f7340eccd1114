// Lays a predicted and a measured timeline side by side (docs/design.md, "Predicted beside measured").
//
// Times are of the steady steps. An error is |predicted - measured| over the *measured step*, whatever part of the
// step it is of, so that errors of a lane, a cause and an op can be compared with each other and with the step error.
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
  Pair seconds;              // median over steady steps
  double share_of_step = 0;  // signed difference / measured step
};

struct Comparison {
  // Measured: the median, which an outlier does not move. Predicted: the mean, since steps may repeat in a pattern.
  Pair step_seconds;
  double step_error = 0;  // |difference| / measured
  Pair stall_seconds;
  double stall_error = 0;      // |difference| / measured step
  double measured_spread = 0;  // run-to-run: (max - min) / median of the measured periods
  int measured_periods = 0;    // how many; a step error from fewer than kTrustedPeriods is marked in the text
  std::array<Pair, kStallCauses> stall_by_cause{};
  std::array<Pair, 4> phase_seconds{};  // by Phase: compute-lane busy time, mean per steady step
  std::vector<LaneComparison> lanes;    // without the launch lane: its waits are the shadow of other lanes' work
  std::vector<TierComparison> tiers;    // those of which both timelines know the peak
  std::vector<OpError> worst_ops;       // at most ten that contribute most, waits left out; largest first, then by id
};

/// Steady periods of which the median is taken as the measured step.
inline constexpr int kTrustedPeriods = 5;

/// Throws InputError if a hash is not that of `schedule`, if the sources are not (predicted, measured), if either
/// has fewer than 2 steady periods, or if a steady step lacks an op.
Comparison compare_timelines(const Schedule& schedule, const Timeline& predicted, const Timeline& measured);

std::string comparison_text(const Schedule& schedule, const Comparison& comparison);  // the table for a terminal
/// "penstock-comparison/1", described in docs/commands.md.
std::string comparison_json(const Schedule& schedule, const Comparison& comparison);

}  // namespace penstock
