#include "exec/program/run_outputs.h"

#include <fmt/format.h>

#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "shared/build_commit.h"
#include "shared/compare/recording.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

/// Where the schedule goes that the policy writes: beside the timeline, where `penstock-sim compare` looks.
fs::path schedule_beside(const RunCommandOptions& options) { return options.timeline.parent_path() / "schedule.json"; }

}  // namespace

void check_run_outputs(const RunCommandOptions& options, const Scenario& scenario) {
  std::vector<fs::path> taken = scenario.files;
  taken.insert(taken.end(), {options.schedule, options.save});
  std::vector<fs::path> outputs;
  if (!options.timeline.empty() && options.schedule.empty()) outputs.push_back(schedule_beside(options));
  if (!options.timeline.empty()) outputs.push_back(options.timeline);
  if (!options.record.empty()) outputs.push_back(options.record);
  for (const fs::path& output : outputs) {
    check_output_file(output, taken);
    taken.push_back(output);
  }
}

void write_run_files(const RunCommandOptions& options, const RunSetup& setup, const Timeline& timeline,
                     const Training& training) {
  if (!options.save.empty())
    save_checkpoint(options.save, {training.steps_done(), setup.description}, setup.schedule, setup.scenario.model,
                    training.states());
  if (!options.record.empty())
    write_recording(
        make_recording(setup.scenario, options.overrides, setup.schedule, timeline, build_commit(), options.record),
        options.record);
  if (options.timeline.empty()) return;
  write_timeline(timeline, options.timeline);
  if (options.schedule.empty()) write_schedule(setup.schedule, schedule_beside(options));
}

void print_run_files(const RunCommandOptions& options, const Training& training) {
  if (!options.save.empty()) fmt::print("saved step {} to {}\n", training.steps_done(), options.save.string());
  if (!options.timeline.empty()) fmt::print("wrote {}\n", options.timeline.string());
  if (!options.record.empty()) fmt::print("recorded in {}\n", options.record.string());
}

}  // namespace penstock::exec
