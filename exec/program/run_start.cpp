#include "exec/program/run_start.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/checkpoint_names.h"
#include "exec/checkpoint/checkpoint_series.h"
#include "exec/training/run_saves.h"
#include "shared/error.h"
#include "shared/path_kind.h"
#include "shared/standard_streams.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

void note(std::string_view text) { tell(fmt::format("penstock-exec: note: {}\n", text)); }

/// The newest one in the folder of a run that saves every so many steps, or the one at it.
std::optional<FoundCheckpoint> find_newest(const fs::path& folder, const CheckpointOptions& options) {
  // A killed run may have left a newer one that has not its name yet.
  const RunSaves taken_up(folder, options);
  for (const std::string& text : taken_up.notes()) note(text);
  if (options.every > 0) {
    std::vector<std::string> passed_over;
    const std::optional<FoundCheckpoint> found = newest_checkpoint(folder, passed_over);
    for (const std::string& text : passed_over) note(text);
    return found;
  }
  const fs::path found = find_checkpoint(folder);
  if (!is_there(found / kRecordFile)) return std::nullopt;
  return FoundCheckpoint{folder, open_checkpoint(folder)->step()};
}

}  // namespace

RunStart find_start(const RunCommandOptions& given, const Scenario& scenario) {
  const CheckpointOptions& checkpoint = scenario.run.checkpoint;
  RunStart start{given, {}};
  RunCommandOptions& options = start.options;
  if (options.save.empty()) options.save = checkpoint.folder;
  if (options.save.empty() && checkpoint.every > 0)
    throw InputError(
        fmt::format("{}: [checkpoint] every: there is no folder to save to; give --save FOLDER, or "
                    "[checkpoint] folder",
                    scenario.path.string()));
  if (given.resume != kAutoResume) return start;
  if (options.save.empty())
    throw InputError(
        "--resume auto: goes on from what the run saves, and it saves nothing; give --save FOLDER or [checkpoint] "
        "folder (a folder of the name auto is --resume ./auto)");
  options.resume.clear();
  options.is_auto_resume = true;
  const std::optional<FoundCheckpoint> found = find_newest(options.save, checkpoint);
  if (!found) {
    note(fmt::format("--resume auto: {} has no checkpoint; the run begins with step 1", options.save.string()));
    return start;
  }
  options.resume = found->folder;
  const std::int64_t steps = given.steps > 0 ? given.steps : scenario.run.steps;
  if (found->step >= steps)
    start.finished = found->folder;
  else
    options.steps = static_cast<int>(steps - found->step);
  return start;
}

}  // namespace penstock::exec
