#include "exec/program/run_saves_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "exec/checkpoint/checkpoint.h"
#include "exec/runtime/limits.h"

namespace penstock::exec {

using nlohmann::ordered_json;

std::string prepare_saves(RunSetup& setup, const std::vector<std::int64_t>& arenas) {
  RunSaves& saves = *setup.save;
  const std::int64_t steps = setup.scenario.run.steps;
  if (saves.steps_to_save(setup.steps_before, steps) >= steps) return "";  // at the end alone
  const std::int64_t taken = host_arena_bytes(setup.schedule, arenas, setup.backend->is_host());
  // What is counted, and what there is: other programs may have taken memory since.
  const std::int64_t room =
      std::min(setup.host_bytes - taken - setup.beside.total(taken), read_memory_limits().usable_bytes());
  saves.set_aside(setup.schedule, setup.scenario.model, room);
  const std::vector<std::int64_t> files = checkpoint_file_bytes(setup.schedule.numerics, setup.scenario.model);
  const std::int64_t bytes = std::reduce(files.begin(), files.end());
  // A copy is read from DRAM and written to it.
  return saves.expectation(bytes, setup.scenario.machine.cpu.dram_bytes_per_second / 2,
                           saves.write_rate(setup.steps_before, steps, bytes));
}

ordered_json saves_json(const RunSaves& saves) {
  ordered_json json = ordered_json::array();
  for (const SaveTimes& times : saves.times())
    json.push_back({{"step", times.step},
                    {"bytes", times.bytes},
                    {"beside_training", times.beside_training},
                    {"stall_seconds", times.stall_seconds},
                    {"waited_seconds", times.waited_seconds},
                    {"write_seconds", times.write_seconds}});
  return json;
}

}  // namespace penstock::exec
