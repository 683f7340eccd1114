// The files that `penstock-exec run` leaves.
#pragma once

#include <string>

#include "exec/program/attempts.h"
#include "exec/program/commands.h"
#include "exec/program/run_setup.h"
#include "exec/program/run_updates.h"
#include "exec/training/training.h"
#include "shared/compare/timeline_schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

/// Throws InputError if a file asked for cannot be written, or would replace what the run reads or writes elsewhere.
void check_run_outputs(const RunCommandOptions& options, const Scenario& scenario, const TimelineFiles& timelines);

/// The checkpoint, the recording, the timeline and, where the policy wrote it, the schedule, each by itself. Returns,
/// to be printed, where they are.
std::string write_run_files(const RunCommandOptions& options, const RunSetup& setup, const Timeline& timeline,
                            const Training& training, const RunUpdates& updates, Attempts& attempts);

}  // namespace penstock::exec
