#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

#include "shared/error.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "sim/front_desk.h"
#include "sim/planner/progress.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"

namespace penstock::sim {
namespace {

constexpr std::size_t kFaultsShown = 20;

const char* fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::malformed: return "malformed";
    case FaultKind::cycle: return "cycle";
    case FaultKind::race: return "race";
    case FaultKind::over_capacity: return "over_capacity";
    case FaultKind::wrong_value: return "wrong_value";
    case FaultKind::incomplete: return "incomplete";
  }
  return "?";
}

void print_json(const CheckOptions& options, const Schedule& schedule, const std::vector<Fault>& faults) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Fault& fault : faults) {
    nlohmann::ordered_json entry = {{"kind", fault_name(fault.kind)}, {"text", fault.text}};
    if (fault.first_op >= 0) entry["first_op"] = fault.first_op;
    if (fault.second_op >= 0) entry["second_op"] = fault.second_op;
    list.push_back(entry);
  }
  const nlohmann::ordered_json result = {
      {"format", "penstock-check/1"}, {"file", options.schedule.string()}, {"schedule", schedule_hash(schedule)},
      {"ops", schedule.ops.size()},   {"proved", faults.empty()},          {"faults", list}};
  fmt::print("{}", json_text(result));
}

}  // namespace

int check(const CheckOptions& options) {
  Schedule schedule;
  std::vector<Fault> faults;
  {
    StatusLine status("reading the schedule");
    schedule = read_schedule(options.schedule);
    status.update("proving the schedule");
    faults = check_schedule(schedule, kFaultsShown);
  }
  if (options.json) {
    print_json(options, schedule, faults);
  } else if (faults.empty()) {
    fmt::print("{}: schedule {}, {} ops on {} lanes, is proved: no deadlock, no race, within capacity, complete\n",
               options.schedule.string(), schedule_hash(schedule), schedule.ops.size(), schedule.lanes.size());
  } else {
    for (const Fault& fault : faults) fmt::print("{}: {}\n", fault_name(fault.kind), fault.text);
  }
  if (faults.empty()) return kExitDone;
  std::fflush(stdout);
  const std::string count = faults.size() == kFaultsShown
                                ? fmt::format("the first {} faults", faults.size())
                                : fmt::format("{} fault{}", faults.size(), faults.size() == 1 ? "" : "s");
  const bool only_capacity = std::all_of(faults.begin(), faults.end(),
                                         [](const Fault& fault) { return fault.kind == FaultKind::over_capacity; });
  if (only_capacity)
    throw DoesNotFit(fmt::format("{}: exceeds its tiers ({} above)", options.schedule.string(), count));
  throw InputError(fmt::format("{}: is not a sound schedule ({} above)", options.schedule.string(), count));
}

}  // namespace penstock::sim
