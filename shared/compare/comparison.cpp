#include "shared/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "shared/compare/sound_timeline.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "shared/median.h"

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
  require_hash(hash, timeline, source_text(source));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Durations of one op in the steady steps. REQUIRES: a complete timeline.
std::vector<double> durations(const Schedule& schedule, const Timeline& timeline, int op) {
  std::vector<double> seconds;
  for (int step = timeline.warmup_steps; step < timeline.steps; ++step) {
    const OpTime& time =
        timeline.ops[static_cast<std::size_t>(step) * schedule.ops.size() + static_cast<std::size_t>(op)];
    seconds.push_back(time.end - time.start);
  }
  return seconds;
}

std::vector<OpError> worst_ops(const Schedule& schedule, const Timeline& predicted, const Timeline& measured,
                               double measured_step) {
  std::vector<OpError> errors;
  for (const Op& op : schedule.ops) {
    if (std::holds_alternative<WaitWork>(op.work)) continue;
    const Pair seconds{median(durations(schedule, predicted, op.id)), median(durations(schedule, measured, op.id))};
    if (seconds.difference() != 0) errors.push_back({op.id, seconds, seconds.difference() / measured_step});
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

std::array<Pair, 4> phase_seconds(const Schedule& schedule, const Timeline& predicted, const Timeline& measured) {
  std::array<Pair, 4> phases{};
  const auto compute = std::find_if(schedule.lanes.begin(), schedule.lanes.end(),
                                    [](const Lane& lane) { return lane.kind == LaneKind::gpu_compute; });
  for (const Op& op : schedule.ops) {
    if (op.lane != static_cast<int>(compute - schedule.lanes.begin())) continue;
    Pair& phase = phases[static_cast<std::size_t>(op.phase)];
    phase.predicted += mean(durations(schedule, predicted, op.id));
    phase.measured += mean(durations(schedule, measured, op.id));
  }
  return phases;
}

}  // namespace

Comparison compare_timelines(const Schedule& schedule, const Timeline& predicted, const Timeline& measured) {
  if (schedule.ops.empty()) throw InputError("the schedule has no ops: there is nothing to compare");
  const std::string hash = schedule_hash(schedule);
  require_match(hash, predicted, TimelineSource::predicted);
  require_match(hash, measured, TimelineSource::measured);
  require_complete(schedule, predicted, "predicted");
  require_complete(schedule, measured, "measured");
  const std::vector<double> predicted_periods = steady_periods(schedule, predicted, "predicted");
  const std::vector<double> measured_periods = steady_periods(schedule, measured, "measured");

  Comparison result;
  result.step_seconds = {mean(predicted_periods), median(measured_periods)};
  const double step = result.step_seconds.measured;
  if (!(step > 0)) throw InputError("the measured timeline has steps of no length");
  result.step_error = std::abs(result.step_seconds.difference()) / step;
  result.measured_spread = step_spread(schedule, measured);
  result.measured_periods = static_cast<int>(measured_periods.size());

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
  result.phase_seconds = phase_seconds(schedule, predicted, measured);
  result.worst_ops = worst_ops(schedule, predicted, measured, step);
  return result;
}

}  // namespace penstock
