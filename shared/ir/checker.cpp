#include "shared/ir/checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/error.h"
#include "shared/ir/check_parts.h"
#include "shared/ir/limits.h"

namespace penstock {
namespace {

/// Tables of the parts grow with these products; a schedule beyond them is not a real one.
bool has_sane_size(const Schedule& schedule, const Segments& segments, FaultList& faults) {
  const auto lanes = static_cast<std::int64_t>(schedule.lanes.size());
  const auto ops = static_cast<std::int64_t>(schedule.ops.size()), pieces = static_cast<std::int64_t>(segments.count());
  if (segments.visits() <= kMaxSegmentVisits && pieces * lanes <= kMaxSegmentVisits && ops * lanes <= kMaxSegmentVisits)
    return true;
  faults.add(FaultKind::malformed, -1, -1,
             fmt::format("too large to be checked: {} ops on {} lanes touch {} pieces of memory {} times in all", ops,
                         lanes, pieces, segments.visits()));
  return false;
}

void check_all(const Schedule& schedule, FaultList& faults) {
  try {
    check_model_config(schedule.model, "model");
  } catch (const InputError& error) {
    faults.add(FaultKind::malformed, -1, -1, error.what());
    return;
  }
  if (!check_structure(schedule, faults)) return;
  const Segments segments(schedule);
  if (!has_sane_size(schedule, segments, faults)) return;
  const Model model = make_model(schedule.model);
  check_operands(schedule, model, faults);
  if (check_cycles(schedule, faults)) check_races(schedule, segments, faults);
  check_values(schedule, segments, faults);
}

}  // namespace

std::vector<Fault> check_schedule(const Schedule& schedule, std::size_t limit) {
  FaultList faults(limit);
  check_all(schedule, faults);
  return faults.take();
}

void require_valid(const Schedule& schedule, Capacities capacities) {
  constexpr std::size_t kShown = 5;
  const auto is_of_capacity = [](const Fault& fault) { return fault.kind == FaultKind::over_capacity; };
  std::vector<Fault> faults = check_schedule(schedule, kShown + 1 + schedule.tiers.size());
  if (capacities == Capacities::are_not) std::erase_if(faults, is_of_capacity);
  if (faults.empty()) return;
  const bool capacity_alone = std::all_of(faults.begin(), faults.end(), is_of_capacity);
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) text += (i == 0 ? "" : ". ") + faults[i].text;
  if (faults.size() > kShown) text += ". More faults follow";
  if (capacity_alone) throw DoesNotFit(text);
  throw InputError(fmt::format("the schedule{} is not valid: {}",
                               schedule.policy.empty() ? "" : " of policy " + schedule.policy, text));
}

}  // namespace penstock
