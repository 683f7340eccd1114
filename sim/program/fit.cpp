#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <cstdio>

#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "sim/program/choice.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"

namespace penstock::sim {

int fit(const FitOptions& options) {
  Scenario scenario = load_scenario(options.scenario);
  const std::string planned = planned_line(scenario);
  const Schedule schedule = proved_schedule(scenario, {});
  const std::vector<TierMemory> memory = memory_on(schedule, scenario);
  const std::string excess = excess_text(memory, scenario.machine);
  if (options.json) {
    const nlohmann::ordered_json result = {{"format", "penstock-fit/1"},
                                           {"scenario", scenario.name},
                                           {"machine", scenario.machine.name},
                                           {"policy", schedule.policy},
                                           {"parameters", scenario.model.parameters},
                                           {"schedule", schedule_hash(schedule)},
                                           {"fits", excess.empty()},
                                           {"memory", memory_json(memory, scenario.machine)}};
    fmt::print("{}", json_text(result));
  } else {
    fmt::print("{}: {}, policy {}, on {}\n{}\n{}\n{}", scenario.name, schedule.model.name, schedule.policy,
               scenario.machine.name, planned, memory_text(memory, scenario.machine), contents_text(memory));
    if (excess.empty()) fmt::print("\nIt fits.\n");
  }
  if (excess.empty()) return kExitDone;
  std::fflush(stdout);
  throw DoesNotFit(fmt::format("{} does not fit {}: {}", scenario.path.string(), scenario.machine.name, excess));
}

}  // namespace penstock::sim
