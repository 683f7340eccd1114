#include "exec/program/run_outputs.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/dump.h"
#include "exec/data/text_files.h"
#include "exec/program/model_export.h"
#include "exec/program/run_comparison.h"
#include "exec/store/store_files.h"
#include "exec/training/console_line.h"
#include "shared/build_commit.h"
#include "shared/command_files.h"
#include "shared/compare/recording.h"
#include "shared/ir/schedule_json.h"

namespace penstock::exec {

namespace {

/// What a save makes use of beside its folder. Whatever is called FOLDER.previous by now is somebody's, and stays.
void add_names_beside(const std::filesystem::path& save, CommandFiles& files) {
  if (save.empty()) return;
  const CheckpointNames names = checkpoint_names(save);
  for (const std::filesystem::path& beside : {names.partial, names.finished, names.lock})
    files.uses(beside, "--save", save);
  std::error_code ignored;
  if (!std::filesystem::exists(names.previous, ignored)) files.uses(names.previous, "--save", save);
}

/// Of folders in which there can be none, or that are named twice, the store itself says more.
void add_stores(const Scenario& scenario, CommandFiles& files) {
  std::set<std::filesystem::path> known;
  std::error_code error;
  for (const std::filesystem::path& folder : scenario.nvme_paths)
    if (std::filesystem::is_directory(folder, error) && known.insert(std::filesystem::canonical(folder, error)).second)
      files.uses(folder / kStoreName, "machine.nvme_path", folder);
}

}  // namespace

void check_run_outputs(const RunCommandOptions& options, const Scenario& scenario, const TimelineFiles& timelines) {
  CommandFiles files;
  files.reads(scenario.files);
  if (scenario.run.data.file.empty())
    files.reads(default_data_files(std::filesystem::absolute(scenario.path).parent_path()));
  timelines.add_to(files);
  files.reads(options.resume);
  files.replaces(options.save, "--save", options.resume);
  if (scenario.run.checkpoint.every == 0) add_names_beside(options.save, files);
  if (!scenario.run.checkpoint.export_to.empty()) add_export_files(export_options(scenario), "--export", files);
  files.writes(options.record, "--record");
  files.writes(scenario.run.metrics, "[log] metrics");
  files.writes_into(options.compare, comparison_files(options.compare, options.schedule), "--compare");
  files.writes_into(options.dump, kDumpFiles, "--dump");
  add_stores(scenario, files);
  files.check();
}

std::string write_run_files(const RunCommandOptions& options, const RunSetup& setup, const Timeline& timeline,
                            const Training& training, const RunUpdates& updates, Attempts& attempts) {
  std::string text;
  const auto save = [&] {
    if (const auto folder = setup.save->save(training, setup.description))
      text += saved_text(training.steps_done(), *folder);
  };
  const auto record = [&] {
    write_recording(make_recording(setup.scenario, options.scenario.overrides, setup.schedule, timeline, build_commit(),
                                   options.record),
                    options.record);
    text += fmt::format("recorded in {}\n", options.record.string());
  };
  const auto write_times = [&] {
    setup.timelines.write(setup.schedule, timeline);
    text += fmt::format("wrote {}\n", options.timeline.string());
  };
  if (setup.save && !updates.failed()) attempts.make(save);
  if (!options.timeline.empty()) attempts.make(write_times);
  if (!options.record.empty()) attempts.make_of_enough_steps(record);
  return text;
}

}  // namespace penstock::exec
