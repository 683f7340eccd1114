#include "shared/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "shared/error.h"
#include "shared/ir/schedule_json.h"

namespace penstock {
namespace {

constexpr std::size_t kWorstOps = 10;

const char* source_text(TimelineSource source) {
  return source == TimelineSource::predicted ? "predicted" : "measured";
}

void require_match(const std::string& hash, const Timeline& timeline, TimelineSource source) {
  if (timeline.source != source)
    throw InputError(fmt::format("the {} timeline was {}: the predicted one comes first, the measured one second",
                                 source == TimelineSource::predicted ? "first" : "second",
                                 source_text(timeline.source)));
  if (timeline.schedule_hash != hash)
    throw InputError(
        fmt::format("the {} timeline is of schedule {}, but the schedule here is {}: compare timelines of "
                    "one schedule",
                    source_text(source), timeline.schedule_hash, hash));
  const int steady = timeline.steps - timeline.warmup_steps;
  if (steady < 3)
    throw InputError(
        fmt::format("the {} timeline has {} steady steps ({} recorded, {} of them warm-up): at least 3 are "
                    "needed for 2 periods between them",
                    source_text(source), steady, timeline.steps, timeline.warmup_steps));
}

double median(std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Durations of every op in every steady step: [op * steps + step].
struct Durations {
  int steps = 0;
  std::vector<double> seconds;

  Durations(const Schedule& schedule, const Timeline& timeline)
      : steps(timeline.steps - timeline.warmup_steps),
        seconds(schedule.ops.size() * static_cast<std::size_t>(steps), std::nan("")) {
    const int first = timeline.first_step + timeline.warmup_steps;
    for (const OpTime& time : timeline.ops) {
      const int step = time.step - first;
      if (step < 0 || step >= steps) continue;
      if (time.op < 0 || time.op >= static_cast<int>(schedule.ops.size()))
        throw InputError(fmt::format("the {} timeline has an op {} in step {}, but the schedule has {} ops",
                                     source_text(timeline.source), time.op, time.step, schedule.ops.size()));
      seconds[index(time.op, step)] = time.end - time.start;
    }
    const auto missing = std::find_if(seconds.begin(), seconds.end(), [](double value) { return std::isnan(value); });
    if (missing == seconds.end()) return;
    const int at = static_cast<int>(missing - seconds.begin());
    throw InputError(fmt::format("the {} timeline lacks op {} (\"{}\") in step {}", source_text(timeline.source),
                                 at / steps, schedule.ops[static_cast<std::size_t>(at / steps)].name,
                                 first + at % steps));
  }

  std::size_t index(int op, int step) const {
    return static_cast<std::size_t>(op) * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step);
  }
  double mean(int op) const {
    return std::accumulate(seconds.begin() + static_cast<std::ptrdiff_t>(index(op, 0)),
                           seconds.begin() + static_cast<std::ptrdiff_t>(index(op, steps)), 0.0) /
           steps;
  }
  double median_of(int op) const {
    std::vector<double> values(seconds.begin() + static_cast<std::ptrdiff_t>(index(op, 0)),
                               seconds.begin() + static_cast<std::ptrdiff_t>(index(op, steps)));
    return median(values);
  }
};

std::vector<OpError> worst_ops(const Schedule& schedule, const Durations& predicted, const Durations& measured,
                               double measured_step) {
  std::vector<OpError> errors;
  for (const Op& op : schedule.ops) {
    if (std::holds_alternative<WaitWork>(op.work)) continue;
    const Pair seconds{predicted.median_of(op.id), measured.median_of(op.id)};
    errors.push_back({op.id, seconds, seconds.difference() / measured_step});
  }
  const std::size_t kept = std::min(kWorstOps, errors.size());
  std::partial_sort(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(kept), errors.end(),
                    [](const OpError& a, const OpError& b) {
                      const double size_a = std::abs(a.share_of_step), size_b = std::abs(b.share_of_step);
                      return size_a != size_b ? size_a > size_b : a.op < b.op;
                    });
  errors.resize(kept);
  return errors;
}

std::optional<double> peak(const Timeline& timeline, TierKind tier) {
  std::optional<double> bytes;  // the largest, where several devices have such a tier
  for (const TierPeak& entry : timeline.peaks)
    if (entry.tier == tier) bytes = std::max(bytes.value_or(0), static_cast<double>(entry.bytes));
  return bytes;
}

std::array<Pair, 4> phase_seconds(const Schedule& schedule, const Durations& predicted, const Durations& measured) {
  std::array<Pair, 4> phases{};
  const auto compute = std::find_if(schedule.lanes.begin(), schedule.lanes.end(),
                                    [](const Lane& lane) { return lane.kind == LaneKind::gpu_compute; });
  for (const Op& op : schedule.ops) {
    if (op.lane != static_cast<int>(compute - schedule.lanes.begin())) continue;
    Pair& phase = phases[static_cast<std::size_t>(op.phase)];
    phase.predicted += predicted.mean(op.id);
    phase.measured += measured.mean(op.id);
  }
  return phases;
}

}  // namespace

Comparison compare_timelines(const Schedule& schedule, const Timeline& predicted, const Timeline& measured) {
  const std::string hash = schedule_hash(schedule);
  require_match(hash, predicted, TimelineSource::predicted);
  require_match(hash, measured, TimelineSource::measured);
  const Durations predicted_seconds(schedule, predicted), measured_seconds(schedule, measured);

  Comparison result;
  result.step_seconds = {steady_step_seconds(schedule, predicted), steady_step_seconds(schedule, measured)};
  const double step = result.step_seconds.measured;
  if (!(step > 0)) throw InputError("the measured timeline has steps of no length");
  result.step_error = std::abs(result.step_seconds.difference()) / step;
  result.measured_spread = step_spread(schedule, measured);
  result.measured_periods = static_cast<int>(step_periods(schedule, measured).size());

  const StallReport predicted_stalls = attribute_stalls(schedule, predicted);
  const StallReport measured_stalls = attribute_stalls(schedule, measured);
  result.stall_seconds = {predicted_stalls.total_seconds, measured_stalls.total_seconds};
  result.stall_error = std::abs(result.stall_seconds.difference()) / step;
  for (std::size_t i = 0; i < result.stall_by_cause.size(); ++i)
    result.stall_by_cause[i] = {predicted_stalls.by_cause[i], measured_stalls.by_cause[i]};

  const std::vector<double> predicted_busy = lane_busy_seconds(schedule, predicted);
  const std::vector<double> measured_busy = lane_busy_seconds(schedule, measured);
  for (std::size_t i = 0; i < schedule.lanes.size(); ++i) {
    if (schedule.lanes[i].kind == LaneKind::launch) continue;
    const Pair busy{predicted_busy[i], measured_busy[i]};
    result.lanes.push_back({schedule.lanes[i].name, busy, std::abs(busy.difference()) / step});
  }
  for (const TierKind tier : {TierKind::hbm, TierKind::dram, TierKind::nvme})
    if (const auto p = peak(predicted, tier), m = peak(measured, tier); p && m)
      result.tiers.push_back({tier, {*p, *m}});
  result.phase_seconds = phase_seconds(schedule, predicted_seconds, measured_seconds);
  result.worst_ops = worst_ops(schedule, predicted_seconds, measured_seconds, step);
  return result;
}

}  // namespace penstock
