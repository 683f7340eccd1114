#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/command_files.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "sim/front_desk.h"
#include "sim/planner/drive_use.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"

namespace penstock::sim {

int plan(const PlanOptions& options) {
  Scenario scenario = load_scenario(options.scenario);
  CommandFiles files;
  files.reads(scenario.files);
  files.writes(options.output, "-o");
  files.check();
  const Scenario asked = scenario;
  const std::string planned = planned_line(plan_what_is_open(scenario));
  const Schedule schedule = proved_schedule(scenario, {});
  const std::vector<TierMemory> memory = memory_on(schedule, scenario);
  const std::string excess = excess_text(memory, scenario.machine);
  if (!excess.empty() && !options.ignore_capacity)
    throw DoesNotFit(fmt::format("{}; nothing was written (--ignore-capacity writes it all the same). {}",
                                 does_not_fit_text(scenario, excess), remedies_text(find_remedies(asked))));
  write_schedule(schedule, options.output);
  const std::string hash = schedule_hash(schedule);
  if (options.json) {
    nlohmann::ordered_json result = {{"format", "penstock-plan/1"},
                                     {"scenario", scenario.name},
                                     {"machine", scenario.machine.name},
                                     {"policy", schedule.policy},
                                     {"schedule", hash},
                                     {"file", options.output.string()},
                                     {"ops", schedule.ops.size()},
                                     {"edges", schedule.edges.size()},
                                     {"buffers", schedule.buffers.size()},
                                     {"lanes", schedule.lanes.size()},
                                     {"micro_batches", schedule.micro_batches},
                                     {"tokens_per_step", schedule.tokens_per_step()},
                                     {"fits", excess.empty()},
                                     {"memory", memory_json(memory, scenario.machine)}};
    result["executable"] = true;
    put_drive(result, schedule, scenario.machine.nvme, 0);
    fmt::print("{}", json_text(result));
    return kExitDone;
  }
  fmt::print("{}: {}, policy {}, for {}\n", scenario.name, schedule.model.name, schedule.policy, scenario.machine.name);
  fmt::print("{}", planned);
  fmt::print("schedule {}: {} ops on {} lanes, {} edges, {} buffers; {} micro-batches, {} tokens per step\n", hash,
             schedule.ops.size(), schedule.lanes.size(), schedule.edges.size(), schedule.buffers.size(),
             schedule.micro_batches, schedule.tokens_per_step());
  fmt::print(
      "proved: no deadlock, no race, every gradient counted once, every value the one that its reader expects\n\n");
  fmt::print("{}", memory_text(memory, scenario.machine));
  if (!excess.empty()) fmt::print("\nDOES NOT FIT: {}\n", excess);
  if (const std::string drive = drive_text(schedule, scenario.machine.nvme, 0); !drive.empty())
    fmt::print("\n{}\n", drive);
  fmt::print("\nwritten to {}\n", options.output.string());
  return kExitDone;
}

}  // namespace penstock::sim
