#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "shared/command_files.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/scenario/policy_toml.h"
#include "shared/toml_reader.h"
#include "shared/units.h"
#include "sim/front_desk.h"
#include "sim/money/bill.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/drive_use.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/progress.h"
#include "sim/planner/scenario_text.h"
#include "sim/planner/search.h"
#include "sim/planner/sensitivity.h"
#include "sim/program/commands.h"
#include "sim/program/gentle_stop.h"
#include "sim/program/memory_text.h"
#include "sim/program/pages.h"
#include "sim/program/range_text.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

/// What the plan is, in full: everything that the report shows.
struct Found {
  Scenario scenario;  // with the plan's policy and micro-batch
  Schedule schedule;
  Prediction prediction;
  std::vector<TierMemory> memory;
  std::vector<Sensitivity> sensitivities;
};

Found examine(const Scenario& searched, const Candidate& plan) {
  const StatusLine status("proving the plan");
  Found found{searched, {}, {}, {}, {}};
  set_plan(plan, found.scenario);
  found.schedule = make_schedule(found.scenario.policy_input());
  require_sound(found.schedule, searched.path.string());
  found.memory = memory_on(found.schedule, found.scenario);
  if (const std::string excess = excess_text(found.memory, found.scenario.machine); !excess.empty())
    throw std::logic_error("search: its plan does not fit: " + excess);
  found.prediction = simulate(found.schedule, found.scenario.machine);
  found.sensitivities = sensitivities(found.schedule, found.scenario.machine);
  return found;
}

double tokens_per_second(const Found& found, double step_seconds) {
  return static_cast<double>(found.schedule.tokens_per_step()) / step_seconds;
}

std::string front_text(const Found& found, const std::vector<Evaluated>& front, const char* tier) {
  std::vector<std::vector<std::string>> rows{
      {fmt::format("best with less {}", tier), "tokens/s", "step", "hbm", "dram"}};
  for (const Evaluated& entry : front)
    rows.push_back({"  " + candidate_text(entry.candidate),
                    fmt::format("{:.1f}", tokens_per_second(found, entry.step_seconds)),
                    format_seconds(entry.step_seconds), format_bytes_gib(static_cast<double>(entry.arenas.hbm)),
                    format_bytes_gib(static_cast<double>(entry.arenas.dram))});
  return table_text(rows, kTerminalColumns);
}

ordered_json evaluated_json(const Found& found, const Evaluated& entry) {
  ordered_json result = {{"micro_batch", entry.candidate.micro_batch},
                         {"choices", candidate_text(entry.candidate)},
                         {"step_seconds", entry.step_seconds},
                         {"tokens_per_second", tokens_per_second(found, entry.step_seconds)},
                         {"hbm_bytes", entry.arenas.hbm},
                         {"dram_bytes", entry.arenas.dram}};
  if (entry.candidate.chunk_tokens > 0) result["chunk_tokens"] = entry.candidate.chunk_tokens;
  return result;
}

ordered_json search_json(const Found& found, const SearchResult& result, const SearchOptions& options) {
  ordered_json fronts = {{"dram", ordered_json::array()}, {"hbm", ordered_json::array()}};
  for (const Evaluated& entry : result.by_dram) fronts["dram"].push_back(evaluated_json(found, entry));
  for (const Evaluated& entry : result.by_hbm) fronts["hbm"].push_back(evaluated_json(found, entry));
  ordered_json presets = ordered_json::array(), faster = ordered_json::object();
  for (const Evaluated& entry : result.presets) {
    ordered_json preset = evaluated_json(found, entry);
    preset["name"] = entry.origin;
    presets.push_back(preset);
  }
  const Prediction& prediction = found.prediction;
  for (const Sensitivity& one : found.sensitivities)
    faster[one.part] = {{"factor", one.factor},
                        {"step_seconds", prediction.step_seconds / (1 + one.gain)},
                        {"unpaced_step_seconds", prediction.step_seconds / (1 + one.unpaced_gain)}};
  const ErrorRange error = step_error_range(found.scenario.machine);
  return {{"format", "penstock-search/1"},
          {"scenario", found.scenario.name},
          {"machine", found.scenario.machine.name},
          {"calibrated", found.scenario.machine.measured},
          {"parameters", found.scenario.model.parameters},
          {"schedule", schedule_hash(found.schedule)},
          {"micro_batch", found.scenario.micro_batch},
          {"choices", candidate_text(result.best.front().candidate)},
          {"policy", policy_text(found.scenario.policy)},
          {"error_share", step_error_share(error)},
          {"error_range", error_json(error)},
          {"step_seconds", prediction.step_seconds},
          {"step_seconds_range", range_json(step_range(prediction.step_seconds, error))},
          {"tokens_per_second", prediction.tokens_per_second},
          {"tokens_per_second_range", range_json(rate_range(prediction.tokens_per_second, error))},
          {"stall_seconds", prediction.stalls.total_seconds},
          {"bounds",
           {{"same_traffic_seconds", prediction.bounds.same_traffic_seconds},
            {"binding", prediction.bounds.binding},
            {"any_schedule_seconds", prediction.bounds.any_schedule_seconds}}},
          {"if_faster", faster},
          {"presets", presets},
          {"pareto", fronts},
          {"search",
           {{"shapes", result.shapes},
            {"evaluated", result.evaluated},
            {"pruned", result.pruned},
            {"tolerance", options.tolerance},
            {"complete", result.complete},
            {"open_bound_seconds", result.open_bound_seconds}}},
          {"memory", memory_json(found.memory, found.scenario.machine)}};
}

constexpr double kVisible = 5e-5;  // of a step: what rounds to 0.01 %

std::string why_text(const Found& found) {
  const Prediction& prediction = found.prediction;
  const double step = prediction.step_seconds;
  std::string text = fmt::format("bound, same traffic {} ({}); the step is {:.3f} times it\n",
                                 format_seconds(prediction.bounds.same_traffic_seconds), prediction.bounds.binding,
                                 step / prediction.bounds.same_traffic_seconds);
  text += fmt::format("bound, any schedule {} (model FLOPs at the matmul rate); the step is {:.3f} times it\n",
                      format_seconds(prediction.bounds.any_schedule_seconds),
                      step / prediction.bounds.any_schedule_seconds);
  text += fmt::format("compute stalls      {} ({:.2f} % of the step)\n",
                      format_seconds(prediction.stalls.total_seconds), prediction.stalls.total_seconds / step * 100);
  for (const TierMemory& tier : found.memory)
    text += fmt::format("{:<20}{} used of {}\n", tier_text(tier.tier.kind),
                        format_bytes(static_cast<double>(tier.arena_bytes)),
                        capacity_text(tier.tier.kind, found.scenario.machine));
  std::vector<std::vector<std::string>> rows{{"what binds: with 10 % more", "step", "gain"}};
  static constexpr std::pair<const char*, const char*> kNames[] = {{"matmul", "  matmul and attention rate"},
                                                                   {"hbm", "  HBM bandwidth"},
                                                                   {"link", "  link bandwidth"},
                                                                   {"dram", "  DRAM bandwidth, AdamW rate"},
                                                                   {"nvme", "  NVMe, both directions"}};
  std::string slower;
  for (const Sensitivity& one : found.sensitivities)
    for (const auto& [part, name] : kNames)
      if (one.part == part) {
        rows.push_back({name, format_seconds(step / (1 + one.gain)), percent_text(one.gain)});
        if (one.unpaced_gain < -kVisible)
          slower += fmt::format("(a faster {} at full speed: {}, since it takes from others what the step waits for)\n",
                                one.part, percent_text(one.unpaced_gain));
      }
  return text + "\n" + table_text(rows) + slower;
}

std::string presets_text(const Found& found, const std::vector<Evaluated>& presets) {
  if (presets.empty()) return "No preset's schedule fits under these numerics.\n";
  std::vector<std::vector<std::string>> rows{{"presets that fit, same numerics", "tokens/s", "step", "plan is"}};
  for (const Evaluated& entry : presets)
    rows.push_back({"  " + entry.origin, fmt::format("{:.1f}", tokens_per_second(found, entry.step_seconds)),
                    format_seconds(entry.step_seconds),
                    fmt::format("{:.2f} times as fast", entry.step_seconds / found.prediction.step_seconds)});
  return table_text(rows);
}

std::string effort_text(const SearchResult& result, const SearchOptions& options) {
  std::string text = fmt::format("searched {} shapes: {} schedules simulated, {} ruled out by their bounds; ",
                                 result.shapes, result.evaluated, result.pruned);
  if (result.complete)
    return text + fmt::format("nothing in the space is more than {:.1f} % faster\n", options.tolerance * 100);
  return text + (result.open_bound_seconds > 0 ? fmt::format("stopped early: what was not looked at cannot beat {}\n",
                                                             format_seconds(result.open_bound_seconds))
                                               : "stopped early\n");
}

/// What the short search of policy `penstock` finds; nothing if that fits no better than this step, or if there is no
/// schedule of the scenario's own micro-batch.
std::optional<Scenario> short_plan(const Scenario& scenario, const SearchOptions& options, double step_seconds) {
  Scenario started = scenario;
  try {
    const Decision decision = decide(started, options);
    if (decision.outcome != Decision::Outcome::planned || decision.step_seconds >= step_seconds) return std::nullopt;
    apply(decision, started);
  } catch (const InputError&) {
    return std::nullopt;
  }
  started.fixed = scenario.fixed;
  return started;
}

SearchResult run_search(const Scenario& scenario, const SearchCommandOptions& command, SearchOptions& options) {
  options.threads = command.threads;
  if (command.seconds > 0)
    options.deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(command.seconds));
  options.tolerance = command.tolerance / 100;
  options.front = !command.no_front;
  StatusLine status("searching");
  options.progress = searching(status);
  SearchResult result = search(scenario, default_space(scenario), options);
  if (is_stopped(options)) return result;
  // The short search of policy `penstock` looks elsewhere; where it found more, this one goes on from there.
  const double limit = result.best.empty() ? std::numeric_limits<double>::infinity()
                                           : result.best.front().step_seconds * (1 - options.tolerance);
  if (const auto started = short_plan(scenario, options, limit))
    result = search(*started, default_space(scenario), options);
  return result;
}

[[noreturn]] void say_shortage(const Scenario& scenario, const SearchResult& result) {
  Scenario asked = scenario;  // whatever its preset, the planner has looked for another schedule
  for (const PresetInfo& preset : presets())
    if (preset.planned) asked.policy.name = preset.name;
  throw DoesNotFit(fmt::format("{}: no schedule of {} fits {}. The closest: {}; {}. {}", scenario.path.string(),
                               scenario.model.config.name, scenario.machine.name,
                               shortage_text(result.shortage.arenas, scenario.machine),
                               candidate_text(result.shortage.candidate), remedies_text(find_remedies(asked))));
}

}  // namespace

int search_command(const SearchCommandOptions& command) {
  const Scenario scenario = load_scenario(command.scenario);
  const PartPrices prices = prices_of(scenario.cost);
  CommandFiles outputs;
  outputs.reads(scenario.files);
  outputs.writes(command.output, "-o");
  outputs.writes(command.scenario_out, "--scenario-out");
  outputs.writes(command.html, "--html");
  outputs.check();
  SearchOptions options;
  SearchResult result;
  {
    const GentleStop stop("the best so far follows");
    options.stop = &stop.asked();
    result = run_search(scenario, command, options);
    options.stop = nullptr;
  }
  if (result.best.empty() && !result.complete)
    throw std::runtime_error("the search was stopped before it found anything that fits");
  if (result.best.empty()) say_shortage(scenario, result);
  const Found found = examine(scenario, result.best.front().candidate);
  std::string files;
  if (!command.output.empty()) {
    write_schedule(found.schedule, command.output);
    files += fmt::format("schedule written to {}\n", command.output.string());
  }
  if (!command.scenario_out.empty()) {
    const TomlDocument document = load_scenario_document(command.scenario);
    write_text_file(command.scenario_out, scenario_text(document, scenario_file(command.scenario), command.scenario_out,
                                                        result.best.front().candidate));
    files += fmt::format("scenario written to {}\n", command.scenario_out.string());
  }
  const std::optional<Bill> bill = make_bill(scenario.cost, prices, scenario.machine, found.schedule.tokens_per_step(),
                                             found.prediction.step_seconds, step_error_range(scenario.machine));
  const std::string drive = drive_text(found.schedule, scenario.machine.nvme, found.prediction.step_seconds);
  if (!command.html.empty()) {
    write_text_file(command.html,
                    search_page({found.scenario, found.schedule, found.prediction, found.memory,
                                 "plan: " + candidate_text(result.best.front().candidate), drive, bill_text(bill)},
                                search_json(found, result, options)));
    files += fmt::format("report written to {}\n", command.html.string());
  }
  if (command.json) {
    ordered_json json = search_json(found, result, options);
    if (bill) json["cost"] = bill_json(*bill);
    json["executable"] = true;
    put_drive(json, found.schedule, scenario.machine.nvme, found.prediction.step_seconds);
    fmt::print("{}", json_text(json));
    return kExitDone;
  }
  const Prediction& prediction = found.prediction;
  fmt::print("{}: {} on {}; schedule {}\n", scenario.name, found.schedule.model.name, scenario.machine.name,
             schedule_hash(found.schedule));
  fmt::print("{}\n", calibration_note(scenario.machine));
  const ErrorRange error = step_error_range(scenario.machine);
  fmt::print("\nplan                {}\n", candidate_text(result.best.front().candidate));
  fmt::print("step                {}, {}\n", format_seconds(prediction.step_seconds),
             step_range_text(prediction.step_seconds, error));
  fmt::print("throughput          {:.1f} tokens/s, {} ({} tokens per step)\n", prediction.tokens_per_second,
             rate_range_text(prediction.tokens_per_second, error), format_count(found.schedule.tokens_per_step()));
  fmt::print("{}model FLOPs         {}\n", bill_text(bill),
             format_flops(prediction.model_flops / prediction.step_seconds));
  fmt::print("{}\n{}\n", why_text(found), presets_text(found, result.presets));
  if (options.front)
    fmt::print("{}\n{}\n", front_text(found, result.by_dram, "DRAM"), front_text(found, result.by_hbm, "HBM"));
  fmt::print("{}", effort_text(result, options));
  if (!drive.empty()) fmt::print("\n{}\n", drive);
  if (!files.empty()) fmt::print("\n{}", files);
  return kExitDone;
}

}  // namespace penstock::sim
