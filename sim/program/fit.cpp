#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>

#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "sim/front_desk.h"
#include "sim/planner/drive_use.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"
#include "sim/program/system_memory.h"

namespace penstock::sim {
namespace {

std::string fits_text(const SystemVerdict& verdict, const std::string& system_excess) {
  const std::optional<SystemMemory>& system = verdict.memory;
  if (!verdict.left_out.empty())
    return fmt::format("It fits. What the preset's system adds is not counted: {}.", verdict.left_out);
  if (!system) return "It fits.";
  if (system_excess.empty()) return fmt::format("It fits, with what {} adds too.", system->name);
  return fmt::format("It fits as penstock-exec would run it, and does not fit with what {} adds.", system->name);
}

}  // namespace

int fit(const FitOptions& options) {
  Scenario scenario = load_scenario(options.scenario);
  write_scenario(options.scenario, scenario);
  if (scenario.cost.tokens)
    fmt::print(stderr, "penstock-sim: note: fit counts bytes; `simulate` says what {} take in hours and euros\n",
               scenario.cost.amount);
  const Scenario asked = scenario;
  const std::string planned = planned_line(plan_what_is_open(scenario));
  const Schedule schedule = proved_schedule(scenario, {});
  const std::vector<TierMemory> memory = memory_on(schedule, scenario);
  const std::string excess = excess_text(memory, scenario.machine);
  const SystemVerdict verdict = options.ours ? SystemVerdict{} : system_of(scenario, memory);
  const std::optional<SystemMemory>& system = verdict.memory;
  const std::string system_excess = system ? excess_text(*system) : "";
  std::vector<Remedy> remedies;
  if (!excess.empty()) remedies = find_remedies(asked);
  if (options.json) {
    nlohmann::ordered_json result = {{"format", "penstock-fit/1"},
                                     {"scenario", scenario.name},
                                     {"machine", scenario.machine.name},
                                     {"policy", schedule.policy},
                                     {"parameters", scenario.model.parameters},
                                     {"schedule", schedule_hash(schedule)},
                                     {"fits", excess.empty()},
                                     {"memory", memory_json(memory, scenario.machine)},
                                     {"would_fit", remedies_json(remedies)}};
    if (system) result["system"] = system_json(*system);
    if (!verdict.left_out.empty()) result["system_left_out"] = verdict.left_out;
    result["executable"] = true;
    put_drive(result, schedule, scenario.machine.nvme, 0);
    fmt::print("{}", json_text(result));
  } else {
    fmt::print("{}: {}, policy {}, on {}\n{}\n{}\n{}", scenario.name, schedule.model.name, schedule.policy,
               scenario.machine.name, planned, memory_text(memory, scenario.machine), contents_text(memory));
    if (system) fmt::print("\n{}", system_text(*system));
    if (excess.empty()) fmt::print("\n{}\n", fits_text(verdict, system_excess));
    if (const std::string drive = drive_text(schedule, scenario.machine.nvme, 0); !drive.empty())
      fmt::print("{}\n", drive);
  }
  if (excess.empty() && system_excess.empty()) return kExitDone;
  std::fflush(stdout);
  if (!excess.empty())
    throw DoesNotFit(fmt::format("{}. {}", does_not_fit_text(scenario, excess), remedies_text(remedies)));
  throw DoesNotFit(fmt::format("{} does not fit {} with what the code of {} adds: {}; --ours leaves that out",
                               scenario.path.string(), scenario.machine.name, system->name, system_excess));
}

}  // namespace penstock::sim
