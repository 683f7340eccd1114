// How long nothing may complete before a run is taken for hung.
#pragma once

#include <optional>
#include <string>

#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

struct Watchdog {
  double seconds = 0;  // 0: none
  std::string why;     // for the message: whose limit that is, and how to set another
};

/// `given` (--watchdog), or by default kWatchdogFactor times what the longest op should take alone, and never less than
/// kWatchdogSeconds. A profile says how long that is. Without one the CPU may be any: an op is then taken to do
/// 1 GFLOP/s and 1 GB/s, what a single slow core without vector units does, and copies go at the scenario's throttle.
Watchdog watchdog_of(std::optional<double> given, const Schedule& schedule, const Scenario& scenario,
                     bool is_host_backend);

inline constexpr double kWatchdogSeconds = 120;
inline constexpr double kWatchdogFactor = 10;  // predictions are off by less, and other work slows an op by less

}  // namespace penstock::exec
