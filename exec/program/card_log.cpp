#include "exec/program/card_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::exec {
namespace {

using nlohmann::ordered_json;

struct ThrottleName {
  Throttle bit;
  const char* key;   // in JSON
  const char* text;  // what holds the clocks down
};
constexpr ThrottleName kThrottles[] = {
    {kPowerLimit, "power_limit", "its power limit"},
    {kHardwareSlowdown, "hardware_slowdown", "the hardware's own slowdown"},
    {kSyncBoost, "sync_boost", "another card's clocks (sync boost)"},
    {kHot, "hot", "its temperature"},
    {kHotHardware, "hot_hardware", "its temperature (the hardware's own limit)"},
    {kPowerBrake, "power_brake", "the power supply's brake"},
    {kDisplay, "display", "the display"},
};

const ThrottleName& name_of(Throttle bit) {
  return *std::find_if(std::begin(kThrottles), std::end(kThrottles), [&](const auto& name) { return name.bit == bit; });
}

Spread spread_of(const std::vector<CardState>& readings, double CardState::*figure) {
  Spread spread;
  int count = 0;
  for (const CardState& state : readings) {
    const double value = state.*figure;
    if (value < 0) continue;
    spread.least = count == 0 ? value : std::min(spread.least, value);
    spread.most = count == 0 ? value : std::max(spread.most, value);
    spread.mean += value;
    ++count;
  }
  spread.known = count > 0;
  if (spread.known) spread.mean /= count;
  return spread;
}

int most(const std::vector<CardState>& readings, int CardState::*figure) {
  int found = -1;
  for (const CardState& state : readings) found = std::max(found, state.*figure);
  return found;
}

ordered_json spread_json(const Spread& spread) {
  return {{"least", spread.least}, {"mean", spread.mean}, {"most", spread.most}};
}

std::string link_text(const CardSummary& s) {
  if (s.link_lanes <= 0) return "";
  std::string text = fmt::format("            link PCIe {} x{}\n", s.link_generation, s.link_lanes);
  if (s.link_generation > 0 && s.link_generation < s.most_generation)  // not even at work
    text += fmt::format(
        "            card and slot can do generation {}: copies take up to {} times as long. The firmware's settings may "
        "hold it down, or a riser that does not carry more\n",
        s.most_generation, 1 << (s.most_generation - s.link_generation));
  if (s.lacks_lanes())
    text += fmt::format(
        "            the link has {} of {} lanes: copies take up to {:.2g} times as long. The slot may be wired for fewer "
        "or share its lanes with another slot or a drive; see the board's manual, the firmware's settings and the riser\n",
        s.link_lanes, std::max(s.most_lanes, s.card_lanes),
        static_cast<double>(std::max(s.most_lanes, s.card_lanes)) / s.link_lanes);
  return text;
}

/// A long run is read less and less often, so that its readings take no memory to speak of.
constexpr std::size_t kMostReadings = 1 << 16;
void halve(std::vector<CardState>& readings, std::chrono::milliseconds& interval) {
  for (std::size_t i = 0; 2 * i < readings.size(); ++i) readings[i] = readings[2 * i];
  readings.resize((readings.size() + 1) / 2);
  interval *= 2;
}

}  // namespace

bool CardSummary::lacks_lanes() const { return link_lanes > 0 && link_lanes < std::max(most_lanes, card_lanes); }

CardSummary summarize(const std::vector<CardState>& readings) {
  CardSummary s;
  s.readings = static_cast<int>(readings.size());
  s.sm_mhz = spread_of(readings, &CardState::sm_mhz);
  s.memory_mhz = spread_of(readings, &CardState::memory_mhz);
  s.watts = spread_of(readings, &CardState::watts);
  s.celsius = spread_of(readings, &CardState::celsius);
  if (!readings.empty()) s.limit_watts = readings.back().limit_watts;
  for (const ThrottleName& name : kThrottles) {
    const auto count = std::count_if(readings.begin(), readings.end(),
                                     [&](const CardState& state) { return (state.held_down_by & name.bit) != 0; });
    if (count > 0) s.held_down.emplace_back(name.bit, static_cast<double>(count) / s.readings);
  }
  s.link_generation = most(readings, &CardState::link_generation);
  s.link_lanes = most(readings, &CardState::link_lanes);
  s.most_generation = most(readings, &CardState::most_generation);
  s.most_lanes = most(readings, &CardState::most_lanes);
  s.card_lanes = most(readings, &CardState::card_lanes);
  return s;
}

std::string card_text(const CardSummary& s) {
  if (s.readings == 0) return "";
  std::vector<std::string> parts;
  const auto add = [&](const Spread& spread, const char* unit, const std::string& more = "") {
    if (spread.known)
      parts.push_back(
          fmt::format("{:.0f} {} ({:.0f} to {:.0f}{})", spread.mean, unit, spread.least, spread.most, more));
  };
  add(s.sm_mhz, "MHz");
  add(s.watts, "W", s.limit_watts > 0 ? fmt::format("; limit {:.0f}", s.limit_watts) : "");
  add(s.celsius, "C");
  std::string text =
      parts.empty() ? "" : fmt::format("card        {}, mean of {} readings\n", fmt::join(parts, ", "), s.readings);
  for (const auto& [bit, share] : s.held_down)
    text +=
        fmt::format("            clocks held down by {} in {:.0f} % of the readings\n", name_of(bit).text, share * 100);
  return text + link_text(s);
}

ordered_json card_json(const CardSummary& s) {
  ordered_json held = ordered_json::object(), json = {{"readings", s.readings}};
  for (const auto& [bit, share] : s.held_down) held[name_of(bit).key] = share;
  const auto put = [&](const char* key, const Spread& spread) {
    if (spread.known) json[key] = spread_json(spread);
  };
  put("sm_mhz", s.sm_mhz);
  put("memory_mhz", s.memory_mhz);
  put("watts", s.watts);
  if (s.limit_watts > 0) json["limit_watts"] = s.limit_watts;
  put("celsius", s.celsius);
  json["held_down"] = held;
  if (s.link_lanes > 0)
    json["link"] = {{"generation", s.link_generation},
                    {"lanes", s.link_lanes},
                    {"most_generation", s.most_generation},
                    {"most_lanes", std::max(s.most_lanes, s.card_lanes)},
                    {"lacks_lanes", s.lacks_lanes()}};
  return json;
}

CardLog::CardLog(std::unique_ptr<CardSensor> sensor, std::chrono::milliseconds interval)
    : sensor_(std::move(sensor)), thread_([this, step = interval]() mutable {
        std::unique_lock lock(mutex_);
        do {
          lock.unlock();
          const CardState now = sensor_->read();
          readings_.push_back(now);
          if (readings_.size() >= kMostReadings) halve(readings_, step);
          lock.lock();
        } while (!changed_.wait_for(lock, step, [this] { return ends_; }));
      }) {}

CardLog::~CardLog() { finish(); }

CardSummary CardLog::finish() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  return summarize(readings_);
}

}  // namespace penstock::exec
