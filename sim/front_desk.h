// From a scenario to its proved schedule and the verdict whether the machine holds it: what both programs do before
// they predict or run anything, in the same words.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/ir/memory.h"
#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/remedy.h"

namespace penstock::sim {

/// Decides what the scenario leaves open (sim/planner/open_policy.h), with a line on the terminal meanwhile, and puts
/// it into the scenario.
Decision plan_what_is_open(Scenario& scenario);
/// The same for a machine that has `room` for arenas and nothing else; the scenario keeps its own machine.
Decision plan_what_is_open(Scenario& scenario, const TierCapacities& room);

/// decision_text as a line of its own; empty if nothing was open.
std::string planned_line(const Decision& decision);

/// The scenario on a machine that has `room` and nothing else.
Scenario within_room(const Scenario& scenario, const TierCapacities& room);

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

/// "s.toml does not fit desk: hbm needs ..."
std::string does_not_fit_text(const Scenario& scenario, const std::string& excess);

/// remedies (sim/planner/remedy.h) of a scenario that does not fit, as it was read, with a line on the terminal
/// meanwhile.
std::vector<Remedy> find_remedies(const Scenario& asked, bool machine_is_there = false);

}  // namespace penstock::sim
