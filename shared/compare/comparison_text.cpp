// The two renderings of a comparison: a table for a terminal and JSON for machines.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/compare/comparison.h"
#include "shared/compare/table.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock {
namespace {

using nlohmann::ordered_json;

using Rows = std::vector<std::vector<std::string>>;

ordered_json pair_json(const Pair& pair) { return {{"predicted", pair.predicted}, {"measured", pair.measured}}; }

/// A line whose error is the signed share of the measured step.
void add_seconds(Rows& rows, const std::string& name, const Pair& pair, double step) {
  rows.push_back(
      {name, format_seconds(pair.predicted), format_seconds(pair.measured), percent_text(pair.difference() / step)});
}

void add_unless_zero(Rows& rows, const std::string& name, const Pair& pair, double step) {
  if (pair.predicted != 0 || pair.measured != 0) add_seconds(rows, name, pair, step);
}

}  // namespace

std::string comparison_text(const Schedule& schedule, const Comparison& comparison) {
  const double step = comparison.step_seconds.measured;
  Rows rows{{"", "predicted", "measured", "error"}};
  add_seconds(rows, "step", comparison.step_seconds, step);
  add_seconds(rows, "stall", comparison.stall_seconds, step);
  for (std::size_t i = 0; i < comparison.stall_by_cause.size(); ++i)
    add_unless_zero(rows, fmt::format("  {}", stall_cause_name(static_cast<StallCause>(i))),
                    comparison.stall_by_cause[i], step);
  rows.push_back({"busy"});
  for (const LaneComparison& lane : comparison.lanes) add_seconds(rows, "  " + lane.lane, lane.busy_seconds, step);
  rows.push_back({"compute by phase"});
  for (std::size_t i = 0; i < comparison.phase_seconds.size(); ++i)
    add_unless_zero(rows, fmt::format("  {}", phase_names()[i]), comparison.phase_seconds[i], step);
  if (!comparison.tiers.empty()) rows.push_back({"arena (error of the measured bytes)"});
  for (const TierComparison& tier : comparison.tiers) {
    const Pair& bytes = tier.peak_bytes;
    rows.push_back({fmt::format("  {}", tier_names()[static_cast<std::size_t>(tier.tier)]),
                    format_bytes(bytes.predicted), format_bytes(bytes.measured),
                    bytes_error_text(bytes.predicted, bytes.measured)});
  }
  if (!comparison.worst_ops.empty()) rows.push_back({"ops that contribute most to the error"});
  for (const OpError& error : comparison.worst_ops)
    add_seconds(rows, "  " + schedule.ops[static_cast<std::size_t>(error.op)].name, error.seconds, step);

  std::string text = table_text(rows);
  text += fmt::format("\nstep error {:.2f} %, stall error {:.2f} % of the measured step; {}\n",
                      comparison.step_error * 100, comparison.stall_error * 100,
                      comparison.measured_periods == 1
                          ? "one step was measured, so that no spread is known"
                          : fmt::format("measured steps spread over {:.2f} %", comparison.measured_spread * 100));
  text += "Errors of times are signed shares of the measured step.\n";
  if (comparison.measured_periods < kTrustedPeriods)
    text += fmt::format("Only {} measured periods: take at least {} before trusting the errors.\n",
                        comparison.measured_periods, kTrustedPeriods);
  return text;
}

std::string comparison_json(const Schedule& schedule, const Comparison& comparison) {
  ordered_json stalls = ordered_json::object(), phases = ordered_json::object(), tiers = ordered_json::object();
  for (std::size_t i = 0; i < comparison.stall_by_cause.size(); ++i)
    stalls[stall_cause_name(static_cast<StallCause>(i))] = pair_json(comparison.stall_by_cause[i]);
  for (std::size_t i = 0; i < comparison.phase_seconds.size(); ++i)
    phases[phase_names()[i]] = pair_json(comparison.phase_seconds[i]);
  for (const TierComparison& tier : comparison.tiers)
    tiers[tier_names()[static_cast<std::size_t>(tier.tier)]] = pair_json(tier.peak_bytes);
  ordered_json lanes = ordered_json::array(), worst = ordered_json::array();
  for (const LaneComparison& lane : comparison.lanes)
    lanes.push_back({{"lane", lane.lane}, {"busy_seconds", pair_json(lane.busy_seconds)}, {"error", lane.error}});
  for (const OpError& error : comparison.worst_ops)
    worst.push_back({{"op", error.op},
                     {"name", schedule.ops[static_cast<std::size_t>(error.op)].name},
                     {"seconds", pair_json(error.seconds)},
                     {"share_of_step", error.share_of_step}});
  const ordered_json whole = {{"format", "penstock-comparison/1"},
                              {"schedule", schedule_hash(schedule)},
                              {"step_seconds", pair_json(comparison.step_seconds)},
                              {"step_error", comparison.step_error},
                              {"stall_seconds", pair_json(comparison.stall_seconds)},
                              {"stall_error", comparison.stall_error},
                              {"measured_periods", comparison.measured_periods},
                              {"measured_spread", comparison.measured_spread},
                              {"lanes", lanes},
                              {"stall_seconds_by_cause", stalls},
                              {"compute_seconds_by_phase", phases},
                              {"peak_bytes", tiers},
                              {"worst_ops", worst}};
  return whole.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
