#include <fmt/format.h>

#include <array>

#include "shared/command_files.h"
#include "shared/compare/comparison.h"
#include "shared/compare/report_html.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/parameters.h"
#include "shared/timeline/chrome_trace.h"
#include "sim/program/choice.h"
#include "sim/program/commands.h"

namespace penstock::sim {
namespace {

Schedule sound_schedule(const std::filesystem::path& file) {
  Schedule schedule = read_schedule(file);
  require_sound(schedule, file.string());
  return schedule;
}

/// --schedule, else none if there is a scenario, else the one that lies beside the timelines.
std::filesystem::path schedule_file(const CompareOptions& options, const Timeline& predicted) {
  if (!options.schedule.empty() || !options.scenario.scenario.empty()) return options.schedule;
  return find_schedule(options.predicted, options.measured, predicted.schedule_hash);
}

/// From its file, or else the scenario's own. compare_timelines verifies the hash.
Schedule schedule_of(const std::filesystem::path& file, Scenario scenario) {
  if (!file.empty()) return sound_schedule(file);
  planned_line(scenario);
  return make_schedule(scenario.policy_input());
}

}  // namespace

int compare(const CompareOptions& options) {
  const ScenarioChoice& choice = options.scenario;
  if (choice.scenario.empty() && !(choice.overrides.empty() && choice.profile.empty()))
    throw InputError("--set and --profile change a scenario, and there is none: add --scenario FILE");
  Scenario scenario;
  if (!choice.scenario.empty()) scenario = load_scenario(choice);
  const Timeline predicted = read_timeline(options.predicted);
  const Timeline measured = read_timeline(options.measured);
  const std::filesystem::path file = schedule_file(options, predicted);
  CommandFiles files;
  files.reads(scenario.files);
  files.reads(std::array{options.predicted, options.measured, file});
  files.writes(options.trace, "--trace");
  files.writes(options.html, "--html");
  files.check();
  const Schedule schedule = schedule_of(file, scenario);
  const Comparison comparison = compare_timelines(schedule, predicted, measured);

  if (!options.trace.empty()) write_chrome_trace(schedule, {&predicted, &measured}, options.trace);
  if (!options.html.empty())
    write_text_file(options.html, report_html(schedule, predicted, measured, comparison, scenario.text));
  if (options.json) {
    fmt::print("{}", comparison_json(schedule, comparison));
    return kExitDone;
  }
  fmt::print("{} on {}: schedule {}\n\n{}", measured.scenario, measured.machine, measured.schedule_hash,
             comparison_text(schedule, comparison));
  if (!options.trace.empty())
    fmt::print("trace written to {} (opens in https://ui.perfetto.dev)\n", options.trace.string());
  if (!options.html.empty()) fmt::print("report written to {}\n", options.html.string());
  return kExitDone;
}

}  // namespace penstock::sim
