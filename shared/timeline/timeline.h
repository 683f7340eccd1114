// What happened when: predicted by penstock-sim or measured by penstock-exec, in one format ("penstock-timeline/1").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

struct OpTime {
  int step = 0;
  int op = 0;
  double start = 0;  // seconds from the start of the first recorded step's first op
  double end = 0;

  bool operator==(const OpTime&) const = default;
};

enum class TimelineSource { predicted, measured };

/// What the run takes of a tier: the whole arena, which both programs know before the first step.
struct TierPeak {
  TierKind tier = TierKind::hbm;
  std::int64_t bytes = 0;
};

struct Timeline {
  TimelineSource source = TimelineSource::predicted;
  std::string schedule_hash;
  std::string scenario;  // name, for people
  std::string machine;   // name
  int first_step = 0;    // the steps recorded: [first_step, first_step + steps)
  int steps = 0;
  int warmup_steps = 0;     // of those, the leading ones that are not steady state
  std::vector<OpTime> ops;  // ordered by (step, op)
  std::vector<TierPeak> peaks;
  std::vector<double> losses;  // measured only: mean token loss per step
};

/// Index of the last backward op of compute, whose ends mark the step boundaries.
int last_backward_op(const Schedule& schedule);

/// Periods between successive ends of the last backward op, steady steps only; size steps - warmup - 1 or more.
std::vector<double> step_periods(const Schedule& schedule, const Timeline& timeline);
/// Median of step_periods.
double steady_step_seconds(const Schedule& schedule, const Timeline& timeline);
/// (max - min) / median of step_periods.
double step_spread(const Schedule& schedule, const Timeline& timeline);

Timeline read_timeline(const std::filesystem::path& path);
void write_timeline(const Timeline& timeline, const std::filesystem::path& path);

}  // namespace penstock
