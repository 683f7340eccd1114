#include <fmt/format.h>

#include "shared/compare/comparison.h"
#include "shared/compare/report_html.h"
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

/// --schedule, else the scenario's own, else schedule.json beside the prediction. compare_timelines verifies the hash.
Schedule schedule_of(const CompareOptions& options, const Scenario* scenario) {
  if (!options.schedule.empty()) return sound_schedule(options.schedule);
  if (scenario) return make_schedule(scenario->policy_input());
  const std::filesystem::path beside = options.predicted.parent_path() / "schedule.json";
  if (!std::filesystem::exists(beside))
    throw InputError(
        fmt::format("{} is not there: say which schedule both timelines ran, with --schedule FILE as `plan` "
                    "wrote it or --scenario FILE",
                    beside.string()));
  return sound_schedule(beside);
}

}  // namespace

int compare(const CompareOptions& options) {
  const ScenarioChoice& choice = options.scenario;
  if (choice.scenario.empty() && !(choice.overrides.empty() && choice.profile.empty()))
    throw InputError("--set and --profile change a scenario, and there is none: add --scenario FILE");
  const Timeline predicted = read_timeline(options.predicted);
  const Timeline measured = read_timeline(options.measured);
  Scenario scenario;
  const bool with_scenario = !options.scenario.scenario.empty();
  if (with_scenario) scenario = load_scenario(options.scenario);
  const Schedule schedule = schedule_of(options, with_scenario ? &scenario : nullptr);
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
