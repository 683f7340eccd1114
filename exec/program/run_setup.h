// `penstock-exec run` before its first step: what was given, checked, and what was made of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/model_folder.h"
#include "exec/checkpoint/run_description.h"
#include "exec/checkpoint/state_source.h"
#include "exec/data/tokens.h"
#include "exec/program/commands.h"
#include "exec/program/setup.h"
#include "exec/runtime/backend.h"
#include "exec/runtime/run_memory.h"
#include "exec/store/block_store.h"
#include "exec/training/run_saves.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "shared/status_line.h"
#include "sim/planner/open_policy.h"

namespace penstock::exec {

struct Resumed {
  std::filesystem::path from;
  std::vector<ChangedValue> changed;         // since the checkpoint, as allowed
  std::vector<std::string> allowed_in_vain;  // keys that do not differ
};

/// What [eval] asks for.
struct EvaluationSetup {
  Schedule schedule;
  std::unique_ptr<TokenSource> tokens;
};

struct RunSetup {
  Scenario scenario;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<BlockStore> drive;  // until the training takes it; nullptr: nothing is on NVMe
  sim::Decision decision;             // what the planner chose
  Schedule schedule;
  std::unique_ptr<TokenSource> tokens;
  std::optional<EvaluationSetup> evaluation;
  std::unique_ptr<StateSource> states;  // until they are loaded
  std::string weights;                  // StateSource::describe of them
  std::int64_t steps_before = 0;
  TimelineFiles timelines;                // `penstock-sim compare` looks for the schedule beside them
  std::int64_t host_bytes = 0;            // that could be allocated before anything was
  BesideArenas beside;                    // what of them was left to the run itself
  TierCapacities room;                    // what arenas could take
  const BlockStore* store = nullptr;      // `drive`, as long as it or the training lives
  std::unique_ptr<RunSaves> save;         // nullptr: nothing is saved
  std::unique_ptr<ModelFolder> exported;  // for other programs; nullptr: nothing is written
  RunDescription description;
  std::optional<Resumed> resumed;
};

/// Everything that can be wrong is found out here, before memory is taken. `options`: as find_start fills them in.
/// `setup`: an empty one, to be filled where it stays.
void prepare_run(const RunCommandOptions& options, Scenario scenario, StatusLine& status, RunSetup& setup);

}  // namespace penstock::exec
