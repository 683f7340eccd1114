// How the card was doing while a run trained: read twice a second by a thread of its own, and said at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/program/card_sensor.h"

namespace penstock::exec {

/// Of a figure over all readings that have it.
struct Spread {
  double least = 0, mean = 0, most = 0;
  bool known = false;
};

struct CardSummary {
  int readings = 0;
  Spread sm_mhz, memory_mhz, watts, celsius;
  double limit_watts = -1;
  /// Share of the readings in which each bit of Throttle was set, idle and asked-for ones left out; those above 0.
  std::vector<std::pair<Throttle, double>> held_down;
  // The most that was seen: an idle card lowers its link's generation.
  int link_generation = -1, link_lanes = -1, most_generation = -1, most_lanes = -1, card_lanes = -1;

  /// Fewer lanes than the card has, or than card and slot can do: a slot wired with fewer, a riser, a bad contact.
  bool lacks_lanes() const;
};

CardSummary summarize(const std::vector<CardState>& readings);

/// Lines for people; "" without readings.
std::string card_text(const CardSummary& summary);
nlohmann::ordered_json card_json(const CardSummary& summary);

class CardLog {
 public:
  /// Reads at once and then every `interval` until `finish`.
  explicit CardLog(std::unique_ptr<CardSensor> sensor,
                   std::chrono::milliseconds interval = std::chrono::milliseconds(500));
  ~CardLog();
  CardLog(const CardLog&) = delete;
  CardLog& operator=(const CardLog&) = delete;

  /// No more is read. Always the same from the second call on.
  CardSummary finish();

 private:
  std::unique_ptr<CardSensor> sensor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;                // guarded by mutex_
  std::vector<CardState> readings_;  // of the thread, until it is joined
  std::thread thread_;
};

}  // namespace penstock::exec
