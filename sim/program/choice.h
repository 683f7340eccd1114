// From the command line's choice to a proved schedule and the verdict whether the machine holds it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "sim/planner/remedy.h"

namespace penstock::sim {

/// choose_open_policy (sim/planner/open_policy.h), with a line on the terminal meanwhile. Returns what was planned as a
/// line to be printed, empty if nothing was.
std::string planned_line(Scenario& scenario);

/// The scenario's schedule as its policy writes it, or the one in `file` if that is not empty: proved but for
/// capacity. Throws InputError with the faults; also if the file's model, sequence length or batch is another one's.
Schedule proved_schedule(const Scenario& scenario, const std::filesystem::path& file);

/// Throws InputError, beginning with `place`, with all faults but those of capacity.
void require_sound(const Schedule& schedule, const std::string& place);

/// `schedule_memory` with what arenas may take of the scenario's machine as capacities (a schedule file may come from
/// another one).
std::vector<TierMemory> memory_on(const Schedule& schedule, const Scenario& scenario);

/// What does not fit: tier, by how much, and the phase that needs most; empty if everything fits.
std::string excess_text(const std::vector<TierMemory>& memory, const Machine& machine);

/// remedies (sim/planner/remedy.h) of a scenario that does not fit, as it was read, with a line on the terminal
/// meanwhile.
std::vector<Remedy> find_remedies(const Scenario& asked);

}  // namespace penstock::sim
