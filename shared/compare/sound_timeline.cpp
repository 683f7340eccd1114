#include "shared/compare/sound_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/error.h"

namespace penstock {

void require_hash(const std::string& hash, const Timeline& timeline, const std::string& which) {
  if (timeline.schedule_hash != hash)
    throw InputError(
        fmt::format("the {} timeline is of schedule {}, but the schedule here is {}: compare timelines of one schedule",
                    which, timeline.schedule_hash, hash));
}

void require_complete(const Schedule& schedule, const Timeline& timeline, const std::string& which) {
  const std::size_t ops = schedule.ops.size();
  if (ops == 0) throw InputError("the schedule has no ops: there is nothing to compare");
  const std::size_t expected = ops * static_cast<std::size_t>(timeline.steps);
  for (std::size_t row = 0; row < std::max(expected, timeline.ops.size()); ++row) {
    const int step = timeline.first_step + static_cast<int>(row / ops), op = static_cast<int>(row % ops);
    if (row < timeline.ops.size() && timeline.ops[row].op >= static_cast<int>(ops))
      throw InputError(fmt::format("the {} timeline has an op {} in step {}, but the schedule has {} ops", which,
                                   timeline.ops[row].op, timeline.ops[row].step, ops));
    if (row >= timeline.ops.size() || timeline.ops[row].step != step || timeline.ops[row].op != op)
      throw InputError(fmt::format("the {} timeline lacks op {} (\"{}\") in step {}", which, op,
                                   schedule.ops[static_cast<std::size_t>(op)].name, step));
  }
}

std::vector<double> steady_periods(const Schedule& schedule, const Timeline& timeline, const std::string& which) {
  std::vector<double> periods = step_periods(schedule, timeline);
  if (periods.empty())
    throw InputError(fmt::format("the {} timeline has no steady period ({} steps recorded, {} of them warm-up)", which,
                                 timeline.steps, timeline.warmup_steps));
  return periods;
}

}  // namespace penstock
