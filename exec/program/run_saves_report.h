// What saves between steps cost: expected before the first, as they went at the end.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "exec/program/run_setup.h"
#include "exec/training/run_saves.h"

namespace penstock::exec {

/// Takes memory for a copy of the states where what is left beside the run holds one, tries how fast a checkpoint is
/// written, and returns what is expected of a save, to be printed; "" where nothing is saved between steps. REQUIRES: the
/// states are loaded, no step was trained.
std::string prepare_saves(RunSetup& setup, Training& training);

/// How saves between steps went, beside what was expected of them, a line; "" where there was none.
std::string saves_text(const RunSaves& saves);

/// [{"step", "bytes", "copied", "stall_seconds", "expected_stall_seconds", "waited_seconds", "write_seconds",
/// "expected_write_seconds"}]: SaveTimes.
nlohmann::ordered_json saves_json(const RunSaves& saves);

}  // namespace penstock::exec
