#include "shared/report/timeline_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::size_t kMemoryPoints = 3000;  // per tier and timeline
constexpr double kTicks = 1 << 30;           // of the drawn part; no tick is shorter than a nanosecond
constexpr char kGap = '\1';                  // where a number stood in an op's name

/// Numbers as little-endian groups of seven bits, as base64 text.
class Packed {
 public:
  void add(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value % 128 + 128);
    bytes_ += static_cast<char>(value);
  }
  void add_signed(std::int64_t value) {  // small negative numbers are short, too
    add(value < 0 ? 2 * static_cast<std::uint64_t>(-(value + 1)) + 1 : 2 * static_cast<std::uint64_t>(value));
  }
  std::string base64() const {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes_.size(); i += 3) {
      std::uint32_t group = 0;
      for (std::size_t k = 0; k < 3; ++k)
        group = group << 8 | (i + k < bytes_.size() ? static_cast<unsigned char>(bytes_[i + k]) : 0u);
      for (std::size_t k = 0; k < 4; ++k)
        text += k <= std::min<std::size_t>(3, bytes_.size() - i) ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
    return text;
  }

 private:
  std::string bytes_;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "forward 3 #0" is "forward ? #?" with 3 and 0. Digits that a number would not give back stay text.
std::pair<std::string, std::vector<std::uint64_t>> split_name(const std::string& name) {
  std::pair<std::string, std::vector<std::uint64_t>> parts;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool is_number = end > i && end - i <= 9 && (name[i] != '0' || end == i + 1);
    if (is_number) {
      parts.first += kGap;
      parts.second.push_back(std::stoull(name.substr(i, end - i)));
    } else {
      end = std::max(end, i + 1);
      for (std::size_t k = i; k < end; ++k) parts.first += name[k] == kGap ? ' ' : name[k];
    }
    i = end;
  }
  return parts;
}

json schedule_json(const Schedule& schedule) {
  std::map<std::pair<std::string, int>, std::size_t> known;
  json kinds = json::array();
  Packed ops;
  for (const Op& op : schedule.ops) {
    const auto [name, numbers] = split_name(op.name);
    const auto [kind, is_new] = known.try_emplace({name, static_cast<int>(op.phase)}, known.size());
    if (is_new) kinds.push_back({{"name", name}, {"gaps", numbers.size()}, {"phase", static_cast<int>(op.phase)}});
    ops.add(kind->second);
    for (const std::uint64_t number : numbers) ops.add(number);
  }
  return {{"kinds", kinds}, {"ops", ops.base64()}};
}

/// Ends of the last backward op in the steady steps: where steps meet.
std::vector<double> boundaries(const Schedule& schedule, const Timeline& timeline) {
  const int last = last_backward_op(schedule);
  std::vector<double> ends;
  for (const OpTime& time : timeline.ops)
    if (time.op == last && time.step >= timeline.first_step + timeline.warmup_steps) ends.push_back(time.end);
  return ends;
}

/// `count` ops of one lane and phase, from `op` on.
struct Bar {
  int op = 0;
  double start = 0, end = 0;
  std::uint64_t count = 1;
};
using LaneBars = std::vector<std::vector<Bar>>;  // by lane, ascending

std::size_t count_bars(const LaneBars& lanes) {
  std::size_t count = 0;
  for (const std::vector<Bar>& bars : lanes) count += bars.size();
  return count;
}

LaneBars bars_between(const Schedule& schedule, const Timeline& timeline, double begin, double end) {
  LaneBars lanes(schedule.lanes.size());
  for (const OpTime& time : timeline.ops)
    if (time.end > begin && time.start < end)
      lanes[static_cast<std::size_t>(schedule.ops[static_cast<std::size_t>(time.op)].lane)].push_back(
          {time.op, time.start, time.end});
  for (std::vector<Bar>& bars : lanes)
    std::sort(bars.begin(), bars.end(),
              [](const Bar& a, const Bar& b) { return std::pair(a.start, a.end) < std::pair(b.start, b.end); });
  return lanes;
}

/// Neighbours of one phase that are no longer than `seconds`, nor further apart, become one bar.
LaneBars joined(const Schedule& schedule, const LaneBars& lanes, double seconds) {
  const auto phase = [&](const Bar& bar) { return schedule.ops[static_cast<std::size_t>(bar.op)].phase; };
  LaneBars result;
  for (const std::vector<Bar>& bars : lanes) {
    std::vector<Bar>& kept = result.emplace_back();
    bool last_is_short = false;
    for (const Bar& bar : bars) {
      const bool is_short = bar.end - bar.start <= seconds;
      if (is_short && last_is_short && phase(bar) == phase(kept.back()) && bar.start - kept.back().end <= seconds) {
        kept.back().end = std::max(kept.back().end, bar.end);
        ++kept.back().count;
      } else {
        kept.push_back(bar);
      }
      last_is_short = is_short;
    }
  }
  return result;
}

struct Window {
  double origin = 0, span = 0, tick = 0;
  std::int64_t ticks(double seconds) const { return std::llround((seconds - origin) / tick); }
};

std::string packed_bars(const std::vector<Bar>& bars, const Window& window) {
  Packed packed;
  std::int64_t op = 0, now = 0;
  for (const Bar& bar : bars) {
    const std::int64_t start = window.ticks(bar.start), end = std::max(start, window.ticks(bar.end));
    packed.add_signed(bar.op - op);
    packed.add_signed(start - now);
    packed.add(static_cast<std::uint64_t>(end - start));
    packed.add(bar.count);
    op = bar.op;
    now = end;
  }
  return packed.base64();
}

std::string packed_curve(const std::vector<MemoryPoint>& curve, const Window& window) {
  Packed packed;
  std::int64_t now = 0, live = 0;
  for (const MemoryPoint& point : thinned(curve, kMemoryPoints)) {
    const std::int64_t at = window.ticks(point.seconds), bytes = std::llround(point.bytes);
    packed.add_signed(at - now);
    packed.add_signed(bytes - live);
    now = at;
    live = bytes;
  }
  return packed.base64();
}

std::string tier_title(const Tier& tier) {
  const std::string name(tier_names()[static_cast<std::size_t>(tier.kind)]);
  return tier.device == 0 ? name : fmt::format("{} {}", name, tier.device);
}

/// Names in the order in which they come first, each once.
void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

class View {
 public:
  explicit View(const std::vector<TimelineSide>& sides) : sides_(sides) {
    std::size_t ops = 1;
    double step = 0;
    for (const TimelineSide& side : sides) {
      ops = std::max(ops, side.schedule->ops.size());
      step = std::max(step, side.step_seconds);
    }
    periods_ = static_cast<int>(std::clamp<std::size_t>(kMostBars / ops, 1, kMostPeriods));
    span_ = periods_ * step;
    tick_ = std::max(1e-9, span_ / kTicks);
  }

  SidesMemory add_to(ReportPage& page) {
    SidesMemory memory;
    json schedules = json::array(), list = json::array();
    std::vector<std::string> lanes, tiers;
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const bool is_shared = i > 0 && sides_[i].schedule == sides_[0].schedule;
      if (!is_shared) schedules.push_back(schedule_json(*sides_[i].schedule));
      for (const Lane& lane : sides_[i].schedule->lanes) add_new(lanes, lane.name);
      for (const Tier& tier : sides_[i].schedule->tiers) add_new(tiers, tier_title(tier));
      json side = side_json(sides_[i], memory);
      side["schedule"] = schedules.size() - 1;
      list.push_back(std::move(side));
    }
    page.widget("timeline", {{"end", span_},
                             {"tick", tick_},
                             {"lanes", lanes},
                             {"tiers", tiers},
                             {"schedules", schedules},
                             {"sides", list},
                             {"left_out", left_out()}});
    return memory;
  }

 private:
  json side_json(const TimelineSide& side, SidesMemory& memory) {
    const std::vector<double> ends = boundaries(*side.schedule, *side.timeline);
    const double origin = ends.empty() ? 0 : ends.front();
    const Window window{origin, span_, tick_};
    double until = origin;
    for (const OpTime& time : side.timeline->ops) until = std::max(until, time.end);
    LaneBars bars = bars_between(*side.schedule, *side.timeline, origin, origin + span_);
    const std::size_t all = count_bars(bars);
    for (double seconds = span_ / 20'000; count_bars(bars) > kMostBars && seconds < span_; seconds *= 2) {
      bars = joined(*side.schedule, bars, seconds);
      shortest_ = std::max(shortest_, seconds);
    }
    joined_ += all - count_bars(bars);
    json lanes = json::array(), marks = json::array(), tiers = json::array();
    for (std::size_t lane = 0; lane < bars.size(); ++lane)
      lanes.push_back({{"name", side.schedule->lanes[lane].name}, {"bars", packed_bars(bars[lane], window)}});
    for (const double end : ends)
      if (end <= origin + span_ * (1 + 1e-9)) marks.push_back(end - origin);
    memory.push_back(live_memory(*side.schedule, *side.timeline, origin, std::min(until, origin + span_)));
    for (std::size_t i = 0; i < side.memory.size(); ++i)
      tiers.push_back({{"tier", tier_title(side.memory[i].tier)},
                       {"capacity", side.memory[i].tier.capacity_bytes},
                       {"arena", side.memory[i].arena_bytes},
                       {"curve", packed_curve(memory.back()[i].curve, window)}});
    return {{"label", side.label}, {"title", side.title}, {"step", side.step_seconds},
            {"lanes", lanes},      {"boundaries", marks}, {"until", until - origin},
            {"memory", tiers}};
  }

  std::string left_out() const {
    std::string text =
        fmt::format("Drawn: {} of the recorded steps.", periods_ == 1 ? "one step" : fmt::format("{} steps", periods_));
    if (periods_ < kMostPeriods) text += " More would make this page too large: the schedule has many ops.";
    if (joined_ > 0)
      text += fmt::format(" Neighbouring ops of up to {} are drawn as one: {} of them stand in others' bars.",
                          format_seconds(shortest_), format_count(static_cast<std::int64_t>(joined_)));
    return text;
  }

  const std::vector<TimelineSide>& sides_;
  int periods_ = 1;
  double span_ = 0, tick_ = 0, shortest_ = 0;
  std::size_t joined_ = 0;
};

}  // namespace

SidesMemory add_timelines(ReportPage& page, const std::vector<TimelineSide>& sides) { return View(sides).add_to(page); }

}  // namespace penstock
