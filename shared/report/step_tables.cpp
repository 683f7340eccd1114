#include "shared/report/step_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock {
namespace {

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.2f} %", part / whole * 100) : "";
}

/// Seconds of several sides, with their shares of each side's step and lengths beside them.
class SecondsTable {
 public:
  SecondsTable(std::string what, const std::vector<StepSide>& sides) : sides_(sides) {
    table_.columns.push_back({std::move(what), Column::Kind::text});
    for (const StepSide& side : sides) {
      table_.columns.push_back({sides.size() > 1 ? side.label : "seconds per step"});
      table_.columns.push_back({"of the step"});
    }
    table_.columns.push_back({"", Column::Kind::meters});
  }

  /// `largest` is the length of the whole meter; 0: none. A side without such a thing has no seconds.
  void add(const std::string& name, const std::vector<std::optional<double>>& seconds, double largest, Row::Look look) {
    Row row{{{name, {}, {}}}, look};
    std::vector<Meter> meters;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      row.cells.push_back({seconds[i] ? format_seconds(*seconds[i]) : "", seconds[i], {}});
      row.cells.push_back({seconds[i] ? share_text(*seconds[i], sides_[i].step_seconds) : "", {}, {}});
      meters.push_back({largest > 0 ? seconds[i].value_or(0) / largest : 0, static_cast<int>(i)});
    }
    if (largest > 0) row.cells.push_back(meters_cell(std::move(meters)));
    table_.rows.push_back(std::move(row));
  }

  void put(ReportPage& page, std::string caption) {
    table_.caption = std::move(caption);
    if (sides_.size() > 1) {
      std::vector<std::string> titles;
      for (const StepSide& side : sides_) titles.push_back(side.title);
      page.sides(titles);
    }
    page.table(table_);
  }

 private:
  const std::vector<StepSide>& sides_;
  ReportTable table_;
};

std::string tier_title(const Tier& tier) {
  const std::string name(tier_names()[static_cast<std::size_t>(tier.kind)]);
  return tier.device == 0 ? name : fmt::format("{} {}", name, tier.device);
}

/// One tier on one side.
struct TierOfSide {
  const TierMemory* memory = nullptr;  // none: this side has no such tier
  const LiveMemory* live = nullptr;
};

/// The rows of one tier: `whole` is the length of the meters.
class TierRows {
 public:
  TierRows(ReportTable& table, const std::vector<TierOfSide>& sides) : table_(table), sides_(sides) {
    for (const TierOfSide& side : sides)
      if (side.memory)
        whole_ = std::max({whole_, static_cast<double>(side.memory->tier.capacity_bytes),
                           static_cast<double>(side.memory->arena_bytes)});
  }

  template <typename Bytes>
  void add(const std::string& name, Bytes bytes, Row::Look look = Row::Look::part, bool with_meter = true) {
    Row row{{{name, {}, {}}}, look};
    std::vector<Meter> meters;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      if (!sides_[i].memory) {
        row.cells.push_back({"", {}, {}});
        meters.push_back({0, static_cast<int>(i)});
        continue;
      }
      const double value = bytes(sides_[i]);
      row.cells.push_back({format_bytes(value), value, {}});
      meters.push_back({whole_ > 0 ? value / whole_ : 0, static_cast<int>(i)});
    }
    row.cells.push_back(with_meter ? meters_cell(std::move(meters)) : Cell{});
    table_.rows.push_back(std::move(row));
  }

 private:
  ReportTable& table_;
  const std::vector<TierOfSide>& sides_;
  double whole_ = 0;
};

void add_tier(ReportTable& table, const std::string& name, const std::vector<TierOfSide>& sides) {
  table.rows.push_back({{{name, {}, {}}}, Row::Look::head});
  TierRows rows(table, sides);
  rows.add(
      "capacity", [](const TierOfSide& side) { return static_cast<double>(side.memory->tier.capacity_bytes); },
      Row::Look::part, false);
  rows.add("arena", [](const TierOfSide& side) { return static_cast<double>(side.memory->arena_bytes); });
  rows.add("peak of live bytes", [](const TierOfSide& side) { return side.live->peak_bytes; });
  for (std::size_t phase = 0; phase < phase_names().size(); ++phase)
    rows.add(fmt::format("at most in {}", phase_names()[phase]),
             [phase](const TierOfSide& side) { return side.live->phase_bytes[phase]; });
}

}  // namespace

void add_stall_table(ReportPage& page, const std::vector<StepSide>& sides) {
  double largest = 0;
  for (const StepSide& side : sides)
    for (const double seconds : side.stalls.by_cause) largest = std::max(largest, seconds);
  SecondsTable table("cause", sides);
  std::vector<std::optional<double>> total;
  for (const StepSide& side : sides) total.push_back(side.stalls.total_seconds);
  for (int cause = 0; cause < kStallCauses; ++cause) {
    std::vector<std::optional<double>> seconds;
    for (const StepSide& side : sides) seconds.push_back(side.stalls.by_cause[static_cast<std::size_t>(cause)]);
    if (std::all_of(seconds.begin(), seconds.end(), [](const auto& each) { return each == 0; })) continue;
    table.add(stall_cause_name(static_cast<StallCause>(cause)), seconds, largest, Row::Look::plain);
  }
  table.add("together", total, 0, Row::Look::head);
  page.section("Stalls by cause",
               "Why compute stood idle. weights: an upload was running; buffer: an eviction had not freed it; gradient "
               "slab: a gradient had not "
               "left; activation: a kept one was not back; launch: the launch thread had not come to it; overhead: "
               "nothing of the schedule ran.");
  table.put(page, "Stalls by cause");
}

void add_lane_table(ReportPage& page, const std::vector<StepSide>& sides) {
  std::vector<std::string> lanes;
  double step = 0;
  for (const StepSide& side : sides) {
    step = std::max(step, side.step_seconds);
    for (const auto& [lane, seconds] : side.lane_seconds)
      if (std::find(lanes.begin(), lanes.end(), lane) == lanes.end()) lanes.push_back(lane);
  }
  SecondsTable table("lane", sides);
  for (const std::string& lane : lanes) {
    std::vector<std::optional<double>> seconds;
    for (const StepSide& side : sides) {
      const auto found = std::find_if(side.lane_seconds.begin(), side.lane_seconds.end(),
                                      [&](const auto& each) { return each.first == lane; });
      seconds.push_back(found == side.lane_seconds.end() ? std::nullopt : std::optional(found->second));
    }
    table.add(lane, seconds, step, Row::Look::plain);
  }
  page.section("Lanes", "How long each was busy; the whole width is a step.");
  table.put(page, "Lanes");
}

void add_memory_table(ReportPage& page, const std::vector<TimelineSide>& sides, const SidesMemory& memory) {
  page.section("Memory by tier and phase",
               "Capacity is what arenas may take, what the system and the context keep being taken off; an arena is "
               "allocated once and decides whether the schedule fits. Live are the bytes of it that hold something, "
               "counted at one moment: the peak is that of the chart above. `penstock-sim fit` counts by phase what "
               "holds something at any moment of it, which is more.");
  ReportTable table;
  table.caption = "Memory by tier and phase";
  table.columns.push_back({"", Column::Kind::text});
  std::vector<std::string> titles;
  for (const TimelineSide& side : sides) {
    titles.push_back(side.title);
    table.columns.push_back({sides.size() > 1 ? side.label : "bytes"});
  }
  table.columns.push_back({"", Column::Kind::meters});
  std::vector<std::string> names;
  std::map<std::string, std::vector<TierOfSide>> tiers;
  for (std::size_t i = 0; i < sides.size(); ++i)
    for (std::size_t tier = 0; tier < sides[i].memory.size(); ++tier) {
      const std::string name = tier_title(sides[i].memory[tier].tier);
      auto [found, is_new] = tiers.try_emplace(name, sides.size());
      if (is_new) names.push_back(name);
      found->second[i] = {&sides[i].memory[tier], &memory[i][tier]};
    }
  for (const std::string& name : names) add_tier(table, name, tiers[name]);
  if (sides.size() > 1) page.sides(titles);
  page.table(table);
}

}  // namespace penstock
