#include <fmt/format.h>

#include <array>
#include <optional>

#include "shared/command_files.h"
#include "shared/compare/comparison.h"
#include "shared/compare/prediction_pair.h"
#include "shared/compare/report_html.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/policy/parameters.h"
#include "shared/timeline/chrome_trace.h"
#include "sim/front_desk.h"
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
  plan_what_is_open(scenario);
  return make_schedule(scenario.policy_input());
}

void check_outputs(const CompareOptions& options, const Scenario& scenario,
                   std::span<const std::filesystem::path> schedules) {
  CommandFiles files;
  files.reads(scenario.files);
  files.reads(std::array{options.predicted, options.measured});
  files.reads(schedules);
  files.writes(options.trace, "--trace");
  files.writes(options.html, "--html");
  files.check();
}

std::string files_text(const CompareOptions& options) {
  std::string text;
  if (!options.trace.empty())
    text += fmt::format("trace written to {} (opens in https://ui.perfetto.dev)\n", options.trace.string());
  if (!options.html.empty()) text += fmt::format("report written to {}\n", options.html.string());
  return text;
}

/// The schedule of --schedule or --scenario where it is that of the timeline, else the one beside it.
int compare_pair(const CompareOptions& options, const Scenario& scenario, const Timeline& first,
                 const Timeline& second) {
  std::optional<Schedule> given;
  if (!options.schedule.empty() || !options.scenario.scenario.empty()) given = schedule_of(options.schedule, scenario);
  const std::string given_hash = given ? schedule_hash(*given) : "";
  const std::array<const Timeline*, 2> timelines{&first, &second};
  const std::array<std::filesystem::path, 2> places{options.predicted, options.measured};
  std::array<std::filesystem::path, 3> files{options.schedule};
  std::array<Schedule, 2> schedules;
  if (given && given_hash != first.schedule_hash && given_hash != second.schedule_hash)
    throw InputError(
        fmt::format("the schedule given is {}, but the timelines are of {} and {}: give one of those, or "
                    "none where schedule-HASH.json lies beside each timeline",
                    given_hash, first.schedule_hash, second.schedule_hash));
  for (std::size_t i = 0; i < 2; ++i)
    if (given_hash != timelines[i]->schedule_hash)
      files[i + 1] = find_schedule(places[i], places[1 - i], timelines[i]->schedule_hash);
  check_outputs(options, scenario, files);
  for (std::size_t i = 0; i < 2; ++i) schedules[i] = files[i + 1].empty() ? *given : sound_schedule(files[i + 1]);
  const PredictionPair pair = compare_predictions({&schedules[0], &schedules[1]}, timelines);
  if (!options.trace.empty()) write_chrome_trace({{&schedules[0], &first}, {&schedules[1], &second}}, options.trace);
  if (!options.html.empty()) write_text_file(options.html, pair_html(pair));
  if (options.json)
    fmt::print("{}", pair_json(pair));
  else
    fmt::print("{}{}", pair_text(pair), files_text(options));
  return kExitDone;
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
  if (predicted.source == TimelineSource::predicted && measured.source == TimelineSource::predicted)
    return compare_pair(options, scenario, predicted, measured);
  const std::filesystem::path file = schedule_file(options, predicted);
  check_outputs(options, scenario, std::array{file});
  const Schedule schedule = schedule_of(file, scenario);
  const Comparison comparison = compare_timelines(schedule, predicted, measured);

  if (!options.trace.empty()) write_chrome_trace({{&schedule, &predicted}, {&schedule, &measured}}, options.trace);
  if (!options.html.empty())
    write_text_file(options.html, report_html(schedule, predicted, measured, comparison, scenario.text));
  if (options.json) {
    fmt::print("{}", comparison_json(schedule, comparison));
    return kExitDone;
  }
  fmt::print("{} on {}: schedule {}\n\n{}{}", measured.scenario, measured.machine, measured.schedule_hash,
             comparison_text(schedule, comparison), files_text(options));
  return kExitDone;
}

}  // namespace penstock::sim
