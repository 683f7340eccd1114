// What the scenario says of a run where the command line does not, and where `--resume auto` goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "exec/program/commands.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

inline constexpr const char* kAutoResume = "auto";

struct RunStart {
  RunCommandOptions options;
  /// Of --resume auto: whose steps are all done, so that nothing is left to train.
  std::optional<std::filesystem::path> finished;
};

/// `--save`, `--resume` and `--steps` are filled in. With --resume auto the steps are counted from the very first one,
/// and those behind the newest whole checkpoint of the folder that is saved to are taken off. Says in one line where it
/// begins if there is none. Throws InputError if a folder is needed and none is named.
RunStart find_start(const RunCommandOptions& given, const Scenario& scenario);

}  // namespace penstock::exec
