#include "shared/compare/report_html.h"

#include <fmt/format.h>

#include "shared/compare/table.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/report/page.h"
#include "shared/report/step_tables.h"
#include "shared/report/timeline_view.h"
#include "shared/units.h"

namespace penstock {
namespace {

constexpr const char* kLabels[] = {"predicted", "measured"};

Row pair_row(const std::string& name, const Pair& pair, std::string (*format)(double), const std::string& error,
             Row::Look look = Row::Look::plain) {
  return {{{name, {}, {}},
           {format(pair.predicted), pair.predicted, {}},
           {format(pair.measured), pair.measured, {}},
           {error, {}, {}}},
          look};
}

void add_errors(ReportPage& page, const Schedule& schedule, const Comparison& comparison) {
  const double step = comparison.step_seconds.measured;
  page.section("Predicted, measured, error",
               "Errors of times are signed shares of the measured step; those of bytes, of the measured bytes.");
  ReportTable table{
      "Predicted, measured, error", {{"", Column::Kind::text}, {kLabels[0]}, {kLabels[1]}, {"error"}}, {}};
  const auto seconds = [&](const std::string& name, const Pair& pair, Row::Look look = Row::Look::plain) {
    table.rows.push_back(pair_row(name, pair, format_seconds, percent_text(pair.difference() / step), look));
  };
  const auto head = [&](const char* name) { table.rows.push_back({{{name, {}, {}}}, Row::Look::head}); };
  seconds("step", comparison.step_seconds);
  seconds("stall", comparison.stall_seconds);
  head("busy lanes");
  for (const LaneComparison& lane : comparison.lanes) seconds(lane.lane, lane.busy_seconds, Row::Look::part);
  head("compute by phase");
  for (std::size_t i = 0; i < comparison.phase_seconds.size(); ++i)
    seconds(std::string(phase_names()[i]), comparison.phase_seconds[i], Row::Look::part);
  head("arena");
  for (const TierComparison& tier : comparison.tiers)
    table.rows.push_back(pair_row(std::string(tier_names()[static_cast<std::size_t>(tier.tier)]), tier.peak_bytes,
                                  format_bytes, bytes_error_text(tier.peak_bytes.predicted, tier.peak_bytes.measured),
                                  Row::Look::part));
  if (!comparison.worst_ops.empty()) head("ops that contribute most to the error");
  for (const OpError& op : comparison.worst_ops)
    seconds(schedule.ops[static_cast<std::size_t>(op.op)].name, op.seconds, Row::Look::part);
  page.table(table);
}

StepSide step_side(const Comparison& comparison, double Pair::*which, const char* label) {
  StepSide side{label, label, comparison.step_seconds.*which, {comparison.stall_seconds.*which, {}}, {}};
  for (std::size_t i = 0; i < comparison.stall_by_cause.size(); ++i)
    side.stalls.by_cause[i] = comparison.stall_by_cause[i].*which;
  return side;
}

}  // namespace

std::string report_html(const Schedule& schedule, const Timeline& predicted, const Timeline& measured,
                        const Comparison& comparison, const std::string& scenario_text) {
  ReportPage page(fmt::format("Penstock: {} on {}", measured.scenario, measured.machine),
                  fmt::format("{}, policy {}, micro-batches: {} of {} x {} tokens; schedule {}", schedule.model.name,
                              schedule.policy, schedule.micro_batches, schedule.micro_batch.sequences,
                              schedule.shape_of(0).sequence_length, schedule_hash(schedule)));
  page.tiles(
      {{"predicted step", format_seconds(comparison.step_seconds.predicted)},
       {"measured step", format_seconds(comparison.step_seconds.measured)},
       {"step error", fmt::format("{:.2f} %", comparison.step_error * 100)},
       {"stall error", fmt::format("{:.2f} %", comparison.stall_error * 100)},
       {fmt::format("spread of {} measured periods", comparison.measured_periods),
        comparison.measured_periods == 1 ? "unknown" : fmt::format("{:.2f} %", comparison.measured_spread * 100)}});
  page.section("Timelines",
               "Aligned at the end of a step's last backward op. Beneath the lanes the live bytes of each tier, "
               "predicted filled, measured as a line.");
  const std::vector<TierMemory> memory = schedule_memory(schedule);
  const std::vector<TimelineSide> sides{
      {kLabels[0], kLabels[0], &schedule, &predicted, memory, comparison.step_seconds.predicted},
      {kLabels[1], kLabels[1], &schedule, &measured, memory, comparison.step_seconds.measured}};
  const SidesMemory live = add_timelines(page, sides);
  add_errors(page, schedule, comparison);
  add_stall_table(
      page, {step_side(comparison, &Pair::predicted, kLabels[0]), step_side(comparison, &Pair::measured, kLabels[1])});
  add_memory_table(page, sides, live);
  if (!scenario_text.empty()) {
    page.section("Scenario");
    page.preformatted(scenario_text);
  }
  return page.html();
}

}  // namespace penstock
