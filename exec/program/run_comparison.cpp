#include "exec/program/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shared/compare/report_html.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "sim/simulate.h"

namespace penstock::exec {
namespace {

constexpr const char* kScheduleFile = "schedule.json";
constexpr const char* kReportFile = "report.html";

}  // namespace

std::vector<std::string> comparison_files(const std::filesystem::path& folder,
                                          const std::filesystem::path& schedule_file) {
  std::vector<std::string> files{kScheduleFile, "predicted.json", "measured.json", "comparison.json", kReportFile};
  std::error_code error;
  if (!schedule_file.empty() && std::filesystem::equivalent(folder / kScheduleFile, schedule_file, error))
    files.erase(files.begin());
  return files;
}

RunComparison::RunComparison(const Scenario& scenario, const Schedule& schedule, int recorded_steps,
                             std::filesystem::path folder, std::filesystem::path schedule_file)
    : folder_(std::move(folder)), schedule_file_(std::move(schedule_file)), scenario_text_(scenario.text) {
  const int periods = recorded_steps - std::max(1, scenario.run.warmup_steps);
  if (periods < 1)
    throw InputError(
        fmt::format("--compare needs a steady period: {} recorded steps, of which {} warm up, have none; take more "
                    "with --steps",
                    recorded_steps, scenario.run.warmup_steps));
  predicted_ = sim::simulate(schedule, scenario.machine).timeline;
  predicted_.scenario = scenario.name;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw InputError(fmt::format("{}: cannot be made a folder: {}; name one that is there or can be made",
                                 folder_.string(), error.message()));
}

Comparison RunComparison::finish(const Schedule& schedule, const Timeline& measured) const {
  if (comparison_files(folder_, schedule_file_).front() == kScheduleFile)
    write_schedule(schedule, folder_ / kScheduleFile);
  write_timeline(predicted_, folder_ / "predicted.json");
  write_timeline(measured, folder_ / "measured.json");
  const Comparison comparison = compare_timelines(schedule, predicted_, measured);
  write_text_file(folder_ / "comparison.json", comparison_json(schedule, comparison));
  write_text_file(folder_ / kReportFile, report_html(schedule, predicted_, measured, comparison, scenario_text_));
  return comparison;
}

}  // namespace penstock::exec
