#include "exec/program/run_saves_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/state_updates.h"
#include "exec/runtime/limits.h"
#include "shared/error.h"
#include "shared/timeline/timeline.h"
#include "shared/units.h"
#include "sim/simulate.h"

namespace penstock::exec {

using nlohmann::ordered_json;

namespace {

/// By layer: from the beginning of a steady step to when its states are first written; none where nothing can be
/// predicted.
std::vector<double> predicted_update_seconds(const RunSetup& setup) {
  const Schedule& schedule = setup.schedule;
  const StateUpdates updates = state_updates(schedule, setup.scenario.model);
  try {
    const Timeline timeline = sim::simulate(schedule, setup.scenario.machine).timeline;
    const int boundary = last_backward_op(schedule);
    std::map<int, double> begins;                 // by step: where the one before ended
    std::map<int, std::map<int, double>> starts;  // by step and op
    for (const OpTime& time : timeline.ops) {
      if (time.op == boundary) begins[time.step + 1] = time.end;
      starts[time.step][time.op] = time.start;
    }
    const auto begin =
        std::find_if(begins.begin(), begins.end(), [&](const auto& entry) { return starts.contains(entry.first); });
    if (begin == begins.end()) return {};
    const auto& [step, begin_seconds] = *begin;
    std::vector<double> seconds;
    for (const int op : updates.first_op) seconds.push_back(op < 0 ? 0 : starts[step][op] - begin_seconds);
    return seconds;
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

std::string prepare_saves(RunSetup& setup, Training& training) {
  RunSaves& saves = *setup.save;
  const std::int64_t steps = setup.scenario.run.steps;
  if (saves.steps_to_save(setup.steps_before, steps) >= steps) return "";  // at the end alone
  const std::int64_t taken = host_arena_bytes(setup.schedule, training.arenas(), setup.backend->is_host());
  // What is counted, and what there is: other programs may have taken memory since.
  const std::int64_t room =
      std::min(setup.host_bytes - taken - setup.beside.total(taken), read_memory_limits().usable_bytes());
  saves.set_aside(training, room);
  const std::vector<std::int64_t> files = checkpoint_file_bytes(setup.schedule, setup.scenario.model);
  RunSaves::Expected expected;
  expected.file_bytes = std::reduce(files.begin(), files.end());
  expected.copy_rate = setup.scenario.machine.cpu.dram_bytes_per_second / 2;  // a copy is read and written
  expected.write_rate = saves.write_rate(setup.steps_before, steps, expected.file_bytes);
  if (saves.gates() != nullptr) expected.update_seconds = predicted_update_seconds(setup);
  saves.expect(std::move(expected));
  return saves.expectation();
}

std::string saves_text(const RunSaves& saves) {
  if (saves.times().empty()) return "";
  double stall = 0, longest = 0, waited = 0, write = 0;
  for (const SaveTimes& times : saves.times()) {
    stall += times.stall_seconds;
    longest = std::max(longest, times.stall_seconds);
    waited += times.waited_seconds;
    write += times.write_seconds;
  }
  const auto count = static_cast<double>(saves.times().size());
  const auto expected = [](double seconds) { return seconds > 0 ? ", expected " + format_seconds(seconds) : ""; };
  return fmt::format(
      "saves between steps: {} of {}; training waited {} for each (at most {}{}){}, and they were written in {} (mean{})\n",
      saves.times().size(), format_bytes(static_cast<double>(saves.times().back().bytes)),
      format_seconds(stall / count), format_seconds(longest), expected(saves.expected_stall()),
      waited > 0 ? fmt::format(", of that {} for the one before", format_seconds(waited / count)) : "",
      format_seconds(write / count), expected(saves.expected_write()));
}

ordered_json saves_json(const RunSaves& saves) {
  ordered_json json = ordered_json::array();
  for (const SaveTimes& times : saves.times())
    json.push_back({{"step", times.step},
                    {"bytes", times.bytes},
                    {"copied", times.copied},
                    {"stall_seconds", times.stall_seconds},
                    {"expected_stall_seconds", saves.expected_stall()},
                    {"waited_seconds", times.waited_seconds},
                    {"write_seconds", times.write_seconds},
                    {"expected_write_seconds", saves.expected_write()}});
  return json;
}

}  // namespace penstock::exec
