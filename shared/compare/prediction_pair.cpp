#include "shared/compare/prediction_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "shared/compare/sound_timeline.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWhich[] = {"first", "second"};

std::string batch_text(const Schedule& schedule) {
  return fmt::format("{} x {} x {} tokens", schedule.micro_batches, schedule.micro_batch.sequences,
                     schedule.shape_of(0).sequence_length);
}

std::string title_of(const PredictionPair& pair, std::size_t i) {
  const PredictedSide &one = pair[i], &other = pair[1 - i];
  std::string title =
      fmt::format("{}: policy {} on {}", i == 0 ? "A" : "B", one.schedule->policy, one.timeline->machine);
  if (one.timeline->scenario != other.timeline->scenario) title += ", " + one.timeline->scenario;
  if (one.schedule->model.name != other.schedule->model.name) title += ", " + one.schedule->model.name;
  if (batch_text(*one.schedule) != batch_text(*other.schedule)) title += ", " + batch_text(*one.schedule);
  return title;
}

PredictedSide side_of(const Schedule& schedule, const Timeline& timeline, const std::string& which) {
  if (timeline.source != TimelineSource::predicted)
    throw InputError(fmt::format("the {} timeline was measured: a pair is of two predictions", which));
  if (const std::string hash = schedule_hash(schedule); hash != timeline.schedule_hash)
    throw InputError(fmt::format(
        "the {} timeline is of schedule {}, but the one found for it is {}: give the one that it ran by --schedule or "
        "--scenario, or put schedule-{}.json beside it",
        which, timeline.schedule_hash.substr(0, 40), hash, timeline.schedule_hash.substr(0, 40)));
  require_complete(schedule, timeline, which);
  const std::vector<double> periods = steady_periods(schedule, timeline, which);
  PredictedSide side{&schedule, &timeline, "", 0, 0, attribute_stalls(schedule, timeline), {}, {}};
  side.step_seconds = std::accumulate(periods.begin(), periods.end(), 0.0) / static_cast<double>(periods.size());
  if (!(side.step_seconds > 0)) throw InputError(fmt::format("the {} timeline has steps of no length", which));
  side.tokens_per_second = static_cast<double>(schedule.tokens_per_step()) / side.step_seconds;
  const std::vector<double> busy = lane_busy_seconds(schedule, timeline);
  for (std::size_t i = 0; i < schedule.lanes.size(); ++i)
    if (schedule.lanes[i].kind != LaneKind::launch) side.lane_seconds.emplace_back(schedule.lanes[i].name, busy[i]);
  side.memory = schedule_memory(schedule);
  return side;
}

std::string difference_text(double first, double second) {
  return first != 0 ? percent_text((second - first) / first) : "";
}

/// None where a side has no such lane.
std::optional<double> busy_seconds(const PredictedSide& side, const std::string& lane) {
  for (const auto& [name, seconds] : side.lane_seconds)
    if (name == lane) return seconds;
  return std::nullopt;
}

std::vector<std::string> lane_names(const PredictionPair& pair) {
  std::vector<std::string> names;
  for (const PredictedSide& side : pair)
    for (const auto& [name, seconds] : side.lane_seconds)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

const TierMemory* tier_of(const PredictedSide& side, TierKind kind) {
  for (const TierMemory& tier : side.memory)
    if (tier.tier.kind == kind) return &tier;
  return nullptr;
}

ordered_json side_json(const PredictedSide& side) {
  ordered_json stalls = ordered_json::object(), lanes = ordered_json::array(), memory = ordered_json::array();
  for (std::size_t i = 0; i < side.stalls.by_cause.size(); ++i)
    stalls[stall_cause_name(static_cast<StallCause>(i))] = side.stalls.by_cause[i];
  for (const auto& [lane, seconds] : side.lane_seconds) lanes.push_back({{"lane", lane}, {"busy_seconds", seconds}});
  for (const TierMemory& tier : side.memory)
    memory.push_back({{"tier", tier_names()[static_cast<std::size_t>(tier.tier.kind)]},
                      {"device", tier.tier.device},
                      {"usable_bytes", tier.tier.capacity_bytes},
                      {"arena_bytes", tier.arena_bytes}});
  return {{"scenario", side.timeline->scenario},
          {"machine", side.timeline->machine},
          {"policy", side.schedule->policy},
          {"schedule", side.timeline->schedule_hash},
          {"step_seconds", side.step_seconds},
          {"tokens_per_step", side.schedule->tokens_per_step()},
          {"tokens_per_second", side.tokens_per_second},
          {"stall_seconds", side.stalls.total_seconds},
          {"stall_seconds_by_cause", stalls},
          {"lanes", lanes},
          {"memory", memory}};
}

}  // namespace

PredictionPair compare_predictions(const std::array<const Schedule*, 2>& schedules,
                                   const std::array<const Timeline*, 2>& timelines) {
  PredictionPair pair;
  for (std::size_t i = 0; i < 2; ++i) pair[i] = side_of(*schedules[i], *timelines[i], kWhich[i]);
  for (std::size_t i = 0; i < 2; ++i) pair[i].title = title_of(pair, i);
  return pair;
}

std::string pair_text(const PredictionPair& pair) {
  std::vector<std::vector<std::string>> rows{{"", "A", "B", "B to A"}};
  const auto add = [&](const std::string& name, double a, double b, std::string (*format)(double)) {
    rows.push_back({name, format(a), format(b), difference_text(a, b)});
  };
  add("step", pair[0].step_seconds, pair[1].step_seconds, format_seconds);
  add("tokens/s", pair[0].tokens_per_second, pair[1].tokens_per_second,
      [](double rate) { return fmt::format("{:.1f}", rate); });
  add("compute stalls", pair[0].stalls.total_seconds, pair[1].stalls.total_seconds, format_seconds);
  for (std::size_t i = 0; i < kStallCauses; ++i)
    if (const double a = pair[0].stalls.by_cause[i], b = pair[1].stalls.by_cause[i]; a != 0 || b != 0)
      add(fmt::format("  {}", stall_cause_name(static_cast<StallCause>(i))), a, b, format_seconds);
  rows.push_back({"busy"});
  for (const std::string& lane : lane_names(pair)) {
    const std::optional<double> a = busy_seconds(pair[0], lane), b = busy_seconds(pair[1], lane);
    rows.push_back(
        {"  " + lane, a ? format_seconds(*a) : "", b ? format_seconds(*b) : "", a && b ? difference_text(*a, *b) : ""});
  }
  rows.push_back({"arena (of what arenas may take)"});
  for (const TierKind kind : {TierKind::hbm, TierKind::dram, TierKind::nvme}) {
    const TierMemory *a = tier_of(pair[0], kind), *b = tier_of(pair[1], kind);
    if (!a && !b) continue;
    const auto text = [](const TierMemory* tier) {
      return tier ? fmt::format("{} of {}", format_bytes(static_cast<double>(tier->arena_bytes)),
                                format_bytes(static_cast<double>(tier->tier.capacity_bytes)))
                  : "";
    };
    rows.push_back(
        {fmt::format("  {}", tier_names()[static_cast<std::size_t>(kind)]), text(a), text(b),
         a && b ? difference_text(static_cast<double>(a->arena_bytes), static_cast<double>(b->arena_bytes)) : ""});
  }
  return fmt::format("{}\n{}\n\n{}\nBoth are predictions.\n", pair[0].title, pair[1].title, table_text(rows));
}

std::string pair_json(const PredictionPair& pair) {
  const ordered_json whole = {
      {"format", "penstock-prediction-pair/1"}, {"first", side_json(pair[0])}, {"second", side_json(pair[1])}};
  return whole.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
