// The pages of simulate and search: one step in full, and for search what else there is.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/ir/schedule_json.h"
#include "shared/report/page.h"
#include "shared/report/step_tables.h"
#include "shared/report/timeline_view.h"
#include "shared/units.h"
#include "sim/program/pages.h"
#include "sim/program/range_text.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

ReportPage step_page(const PredictedStep& step) {
  const Schedule& schedule = step.schedule;
  return {fmt::format("Penstock: {} on {}", step.scenario.name, step.scenario.machine.name),
          fmt::format("Predicted. {}, policy {}, micro-batches: {} of {} x {} tokens; schedule {}", schedule.model.name,
                      schedule.policy, schedule.micro_batches, schedule.micro_batch.sequences,
                      schedule.shape_of(0).sequence_length, schedule_hash(schedule))};
}

void add_summary(ReportPage& page, const PredictedStep& step) {
  const Prediction& prediction = step.prediction;
  const double seconds = prediction.step_seconds;
  const ErrorRange error = step_error_range(step.scenario.machine);
  page.tiles(
      {{"step, " + step_range_text(seconds, error), format_seconds(seconds)},
       {"tokens/s, " + rate_range_text(prediction.tokens_per_second, error),
        fmt::format("{:.0f}", prediction.tokens_per_second)},
       {"model FLOPs", format_flops(prediction.model_flops / seconds)},
       {"compute stalls", fmt::format("{:.2f} %", prediction.stalls.total_seconds / seconds * 100)},
       {fmt::format("times the bound, same traffic ({})", prediction.bounds.binding),
        fmt::format("{:.2f}", seconds / prediction.bounds.same_traffic_seconds)},
       {"times the bound, any schedule", fmt::format("{:.2f}", seconds / prediction.bounds.any_schedule_seconds)}});
  if (!step.warnings.empty()) page.warning(step.warnings);
  if (!step.plan.empty()) page.paragraph(step.plan);
  page.paragraph(calibration_note(step.scenario.machine));
  if (!step.cost.empty()) {
    page.section("Time and money");
    page.preformatted(step.cost);
  }
}

void add_step(ReportPage& page, const PredictedStep& step) {
  const Prediction& prediction = step.prediction;
  page.section("Timeline",
               "From the end of one step's last backward op, where time is 0. Beneath the lanes the live bytes of each "
               "tier.");
  const std::vector<TimelineSide> sides{
      {"predicted", "the prediction", &step.schedule, &prediction.timeline, step.memory, prediction.step_seconds}};
  const SidesMemory live = add_timelines(page, sides);
  StepSide side{"predicted", "predicted", prediction.step_seconds, prediction.stalls, {}};
  for (std::size_t i = 0; i < step.schedule.lanes.size(); ++i)
    side.lane_seconds.emplace_back(step.schedule.lanes[i].name, prediction.lane_busy_seconds[i]);
  add_stall_table(page, {side});
  add_lane_table(page, {side});
  add_memory_table(page, sides, live);
}

void add_scenario(ReportPage& page, const Scenario& scenario) {
  if (scenario.text.empty()) return;
  page.section("Scenario", "The file; what options changed in it is not in here.");
  page.preformatted(scenario.text);
}

/// What arenas may take of a tier; 0 if the machine has none of it.
double usable_bytes(const ordered_json& result, const char* tier) {
  for (const ordered_json& entry : result.at("memory"))
    if (entry.at("tier") == tier)
      return entry.at("capacity_bytes").get<double>() - entry.at("kept_bytes").get<double>();
  return 0;
}

double arena_bytes(const ordered_json& result, const char* tier) {
  for (const ordered_json& entry : result.at("memory"))
    if (entry.at("tier") == tier) return entry.at("arena_bytes").get<double>();
  return 0;
}

ChartPoint front_point(const ordered_json& entry, const std::string& bytes_key, const std::string& label) {
  return {entry.at(bytes_key).get<double>(), entry.at("step_seconds").get<double>(), label, {}, false};
}

PointChart front_chart(const ordered_json& result, const char* tier, const char* title) {
  const std::string key = fmt::format("{}_bytes", tier);
  PointChart chart{
      fmt::format("Step time against {}", title),
      {title, "bytes", false},
      {"step time", "seconds", false},
      {{fmt::format("best with less {}", title), {}, true}, {"presets that fit", {}, false}, {"the plan", {}, false}},
      {},
      true};
  // The labels of a front are whole plans, too long to stand beside a dot.
  for (const ordered_json& entry : result.at("pareto").at(tier))
    chart.series[0].points.push_back(front_point(entry, key, ""));
  for (const ordered_json& entry : result.at("presets"))
    chart.series[1].points.push_back(front_point(entry, key, entry.at("name")));
  chart.series[2].points.push_back(
      {arena_bytes(result, tier), result.at("step_seconds").get<double>(), "the plan", {}, true});
  if (const double usable = usable_bytes(result, tier); usable > 0) chart.marks.emplace_back(usable, "capacity");
  return chart;
}

Cell text_cell(const std::string& text) { return {text, {}, {}}; }
Cell seconds_cell(double seconds) { return {format_seconds(seconds), seconds, {}}; }
Cell bytes_cell(double bytes) { return {format_bytes(bytes), bytes, {}}; }
Cell rate_cell(double rate) { return {fmt::format("{:.1f}", rate), rate, {}}; }

ReportTable plans_table(const std::string& caption, const ordered_json& entries, bool named, double plan_seconds) {
  ReportTable table{caption, {}, {}, true};
  if (named) table.columns.push_back({"preset", Column::Kind::text});
  for (const char* name : {"tokens/s", "step", "to the plan", "HBM", "DRAM"}) table.columns.push_back({name});
  table.columns.push_back({"choices", Column::Kind::long_text});
  for (const ordered_json& entry : entries) {
    const double seconds = entry.at("step_seconds").get<double>();
    Row row;
    if (named) row.cells.push_back(text_cell(entry.at("name")));
    row.cells.push_back(rate_cell(entry.at("tokens_per_second").get<double>()));
    row.cells.push_back(seconds_cell(seconds));
    row.cells.push_back({percent_text(seconds / plan_seconds - 1), seconds / plan_seconds, {}});
    row.cells.push_back(bytes_cell(entry.at("hbm_bytes").get<double>()));
    row.cells.push_back(bytes_cell(entry.at("dram_bytes").get<double>()));
    row.cells.push_back(text_cell(entry.at("choices")));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_alternatives(ReportPage& page, const ordered_json& result) {
  const double plan_seconds = result.at("step_seconds").get<double>();
  page.section("Step time against memory",
               "Left of the plan: the fastest schedules that were found with less memory. A preset is another system's "
               "schedule under the same numerics.");
  page.charts({front_chart(result, "hbm", "HBM"), front_chart(result, "dram", "DRAM")});
  page.section("Presets that fit");
  if (result.at("presets").empty())
    page.paragraph("No preset's schedule fits under these numerics.");
  else
    page.table(plans_table("Presets that fit", result.at("presets"), true, plan_seconds));
  page.section("What binds", "The step if one part of the machine had 10 % more, and what that gains.");
  ReportTable table{"What binds", {{"of", Column::Kind::text}, {"step"}, {"gain"}}, {}, true};
  for (const auto& [part, faster] : result.at("if_faster").items()) {
    const double seconds = faster.at("step_seconds").get<double>();
    table.rows.push_back({{text_cell(part),
                           seconds_cell(seconds),
                           {percent_text(plan_seconds / seconds - 1), plan_seconds / seconds, {}}}});
  }
  page.table(table);
}

void add_fronts(ReportPage& page, const ordered_json& result) {
  const ordered_json& fronts = result.at("pareto");
  const double plan_seconds = result.at("step_seconds").get<double>();
  for (const auto& [tier, title] : {std::pair("hbm", "Best with less HBM"), std::pair("dram", "Best with less DRAM")}) {
    if (fronts.at(tier).empty()) continue;
    page.section(title);
    page.table(plans_table(title, fronts.at(tier), false, plan_seconds));
  }
}

}  // namespace

std::string prediction_page(const PredictedStep& step) {
  ReportPage page = step_page(step);
  add_summary(page, step);
  add_step(page, step);
  add_scenario(page, step.scenario);
  return page.html();
}

std::string search_page(const PredictedStep& step, const ordered_json& result) {
  ReportPage page = step_page(step);
  add_summary(page, step);
  add_alternatives(page, result);
  add_step(page, step);
  add_fronts(page, result);
  add_scenario(page, step.scenario);
  return page.html();
}

}  // namespace penstock::sim
