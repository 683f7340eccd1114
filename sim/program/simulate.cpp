#include "sim/simulate.h"

#include <fmt/format.h>
#include "sim/front_desk.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

#include "shared/command_files.h"
#include "shared/compare/table.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/timeline/chrome_trace.h"
#include "shared/units.h"
#include "sim/evaluation_cost.h"
#include "sim/money/bill.h"
#include "sim/planner/drive_use.h"
#include "sim/planner/progress.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"
#include "sim/program/pages.h"
#include "sim/program/range_text.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

/// The critical path by lane: what to make faster first.
struct CriticalLane {
  std::string lane;
  double seconds = 0;
  int ops = 0;
};

std::vector<CriticalLane> critical_lanes(const Schedule& schedule, const Prediction& prediction) {
  std::vector<CriticalLane> lanes;
  for (const Lane& lane : schedule.lanes) lanes.push_back({lane.name});
  for (const CriticalPart& part : prediction.critical) {
    CriticalLane& lane = lanes[static_cast<std::size_t>(schedule.ops[static_cast<std::size_t>(part.op)].lane)];
    lane.seconds += part.seconds;
    ++lane.ops;
  }
  std::erase_if(lanes, [](const CriticalLane& lane) { return lane.ops == 0; });
  std::stable_sort(lanes.begin(), lanes.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return lanes;
}

ordered_json prediction_json(const Scenario& scenario, const Schedule& schedule, const Prediction& prediction,
                             const std::vector<TierMemory>& memory, const std::optional<Bill>& bill) {
  ordered_json stalls = ordered_json::object(), lanes = ordered_json::array(), critical = ordered_json::array();
  for (std::size_t i = 0; i < prediction.stalls.by_cause.size(); ++i)
    stalls[stall_cause_name(static_cast<StallCause>(i))] = prediction.stalls.by_cause[i];
  for (std::size_t i = 0; i < schedule.lanes.size(); ++i)
    lanes.push_back({{"lane", schedule.lanes[i].name}, {"busy_seconds", prediction.lane_busy_seconds[i]}});
  for (const CriticalLane& lane : critical_lanes(schedule, prediction))
    critical.push_back({{"lane", lane.lane}, {"seconds", lane.seconds}, {"ops", lane.ops}});
  const ErrorRange error = step_error_range(scenario.machine);
  ordered_json json = {{"format", "penstock-prediction/1"},
                       {"scenario", scenario.name},
                       {"machine", scenario.machine.name},
                       {"calibrated", scenario.machine.measured},
                       {"policy", schedule.policy},
                       {"parameters", scenario.model.parameters},
                       {"schedule", schedule_hash(schedule)},
                       {"error_share", step_error_share(error)},
                       {"error_range", error_json(error)},
                       {"step_seconds", prediction.step_seconds},
                       {"step_seconds_range", range_json(step_range(prediction.step_seconds, error))},
                       {"period_steps", prediction.period_steps},
                       {"first_step_seconds", prediction.first_step_seconds},
                       {"warmup_period_seconds", prediction.warmup_periods},
                       {"tokens_per_step", schedule.tokens_per_step()},
                       {"tokens_per_second", prediction.tokens_per_second},
                       {"tokens_per_second_range", range_json(rate_range(prediction.tokens_per_second, error))},
                       {"model_flops_per_step", prediction.model_flops},
                       {"executed_flops_per_step", prediction.executed_flops},
                       {"model_flops_per_second", prediction.model_flops / prediction.step_seconds},
                       {"executed_flops_per_second", prediction.executed_flops / prediction.step_seconds},
                       {"bounds",
                        {{"same_traffic_seconds", prediction.bounds.same_traffic_seconds},
                         {"binding", prediction.bounds.binding},
                         {"any_schedule_seconds", prediction.bounds.any_schedule_seconds}}},
                       {"stall_seconds", prediction.stalls.total_seconds},
                       {"stall_seconds_by_cause", stalls},
                       {"lanes", lanes},
                       {"critical_path", critical},
                       {"fits", excess_text(memory, scenario.machine).empty()},
                       {"memory", memory_json(memory, scenario.machine)}};
  if (bill) json["cost"] = bill_json(*bill);
  return json;
}

/// What kind of mean the step time is.
std::string pattern_text(const Prediction& prediction) {
  if (prediction.period_steps == 0) return " (no pattern repeats: the mean of the later half of the simulated steps)";
  if (prediction.period_steps == 1) return "";
  return fmt::format(" (mean over a pattern of {} steps)", prediction.period_steps);
}

std::string step_text(const Schedule& schedule, const Prediction& prediction, const ErrorRange& error) {
  const double step = prediction.step_seconds;
  const Bounds& bounds = prediction.bounds;
  std::string text = fmt::format("step                {}, {}{}\n", format_seconds(step), step_range_text(step, error),
                                 pattern_text(prediction));
  text += fmt::format("first step          {}\n", format_seconds(prediction.first_step_seconds));
  text += fmt::format("throughput          {:.1f} tokens/s, {} ({} tokens per step)\n", prediction.tokens_per_second,
                      rate_range_text(prediction.tokens_per_second, error), format_count(schedule.tokens_per_step()));
  text += fmt::format("model FLOPs         {} (forward and backward once; causal attention counted half)\n",
                      format_flops(prediction.model_flops / step));
  text +=
      fmt::format("executed FLOPs      {} (recomputation included)\n", format_flops(prediction.executed_flops / step));
  text += fmt::format("bound, same traffic {} ({}); the step is {:.2f} times it\n",
                      format_seconds(bounds.same_traffic_seconds), bounds.binding, step / bounds.same_traffic_seconds);
  text += fmt::format("bound, any schedule {} (model FLOPs at the matmul rate); the step is {:.2f} times it\n",
                      format_seconds(bounds.any_schedule_seconds), step / bounds.any_schedule_seconds);
  return text;
}

std::string stalls_and_lanes_text(const Schedule& schedule, const Prediction& prediction) {
  const double step = prediction.step_seconds;
  const auto share = [&](double seconds) { return fmt::format("{:.2f} %", seconds / step * 100); };
  std::vector<std::vector<std::string>> rows{{"per step", "seconds", "of the step"}};
  rows.push_back(
      {"compute stalls", format_seconds(prediction.stalls.total_seconds), share(prediction.stalls.total_seconds)});
  for (std::size_t i = 0; i < prediction.stalls.by_cause.size(); ++i)
    if (const double seconds = prediction.stalls.by_cause[i]; seconds > 0)
      rows.push_back(
          {fmt::format("  {}", stall_cause_name(static_cast<StallCause>(i))), format_seconds(seconds), share(seconds)});
  rows.push_back({"lanes busy"});
  for (std::size_t i = 0; i < schedule.lanes.size(); ++i)
    rows.push_back({"  " + schedule.lanes[i].name, format_seconds(prediction.lane_busy_seconds[i]),
                    share(prediction.lane_busy_seconds[i])});
  rows.push_back({"critical path"});
  for (const CriticalLane& lane : critical_lanes(schedule, prediction))
    rows.push_back(
        {fmt::format("  {} ({} ops)", lane.lane, lane.ops), format_seconds(lane.seconds), share(lane.seconds)});
  return table_text(rows);
}

void check_outputs(const SimulateCommandOptions& options, const Scenario& scenario, const TimelineFiles& timelines) {
  CommandFiles files;
  files.reads(scenario.files);
  timelines.add_to(files);
  files.writes(options.trace, "--trace");
  files.writes(options.scenario.scenario_out, "--scenario-out");
  files.writes(options.html, "--html");
  files.check();
}

/// The files asked for.
std::string write_files(const SimulateCommandOptions& options, const Schedule& schedule, const Timeline& timeline,
                        const TimelineFiles& timelines) {
  std::string text;
  timelines.write(schedule, timeline);
  if (!timelines.beside.empty()) text += fmt::format("schedule written to {}\n", timelines.beside.string());
  if (!timelines.timeline.empty()) text += fmt::format("timeline written to {}\n", timelines.timeline.string());
  if (!options.trace.empty()) {
    write_chrome_trace({{&schedule, &timeline}}, options.trace);
    text += fmt::format("trace written to {} (opens in https://ui.perfetto.dev)\n", options.trace.string());
  }
  return text;
}

}  // namespace

int simulate_command(const SimulateCommandOptions& options) {
  Scenario scenario = load_scenario(options.scenario);
  TimelineFiles timelines{options.schedule, options.timeline, {}};
  check_outputs(options, scenario, timelines);
  write_scenario(options.scenario, scenario);
  const PartPrices prices = prices_of(scenario.cost);
  const Scenario asked = scenario;
  const std::string planned = options.schedule.empty() ? planned_line(plan_what_is_open(scenario)) : "";
  const Schedule schedule = proved_schedule(scenario, options.schedule);
  timelines.know(schedule);
  check_outputs(options, scenario, timelines);
  const std::vector<TierMemory> memory = memory_on(schedule, scenario);
  const std::string excess = excess_text(memory, scenario.machine);
  if (!excess.empty() && !options.ignore_capacity)
    throw DoesNotFit(fmt::format("{} (--ignore-capacity simulates it all the same){}",
                                 does_not_fit_text(scenario, excess),
                                 options.schedule.empty() ? ". " + remedies_text(find_remedies(asked)) : ""));
  Prediction prediction;
  {
    const StatusLine status("simulating");
    prediction = simulate(schedule, scenario.machine);
  }
  prediction.timeline.scenario = scenario.name;
  prediction.timeline.machine = scenario.machine.name;
  const std::optional<EvaluationCost> evaluation = evaluation_cost(scenario, schedule, prediction);
  const std::optional<Bill> bill = make_bill(scenario.cost, prices, scenario.machine, schedule.tokens_per_step(),
                                             evaluation ? evaluation->run_step_seconds() : prediction.step_seconds,
                                             step_error_range(scenario.machine));
  const std::string drive = drive_text(schedule, scenario.machine.nvme, prediction.step_seconds);
  std::string files = write_files(options, schedule, prediction.timeline, timelines);
  if (!options.html.empty()) {
    const std::string warnings = excess.empty() ? drive : "Does not fit: " + excess;
    write_text_file(options.html,
                    prediction_page({scenario, schedule, prediction, memory, planned, warnings, bill_text(bill)}));
    files += fmt::format("report written to {}\n", options.html.string());
  }
  if (options.json) {
    ordered_json result = prediction_json(scenario, schedule, prediction, memory, bill);
    result["range_source"] = calibration_note(scenario.machine);
    if (!planned.empty()) result["planned"] = planned.substr(0, planned.find('\n'));
    result["executable"] = true;
    if (evaluation) result["evaluation"] = evaluation_json(*evaluation);
    put_drive(result, schedule, scenario.machine.nvme, prediction.step_seconds);
    fmt::print("{}", json_text(result));
    return kExitDone;
  }
  fmt::print("{}: {}, policy {}, on {}; schedule {}\n", scenario.name, schedule.model.name, schedule.policy,
             scenario.machine.name, schedule_hash(schedule));
  fmt::print("{}", planned);
  fmt::print("{}\n", calibration_note(scenario.machine));
  fmt::print("\n{}{}{}\n{}\n{}", step_text(schedule, prediction, step_error_range(scenario.machine)),
             evaluation_text(evaluation), bill_text(bill), stalls_and_lanes_text(schedule, prediction),
             memory_text(memory, scenario.machine));
  if (!excess.empty()) fmt::print("\nDOES NOT FIT: {}\n", excess);
  if (!drive.empty()) fmt::print("\n{}\n", drive);
  if (!files.empty()) fmt::print("\n{}", files);
  return kExitDone;
}

}  // namespace penstock::sim
