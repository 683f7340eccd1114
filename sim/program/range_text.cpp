#include "sim/program/range_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/units.h"

namespace penstock::sim {

std::string step_range_text(double seconds, double share) {
  const Range range = step_range(seconds, share);
  return fmt::format("{} to {}", format_seconds(range.low), format_seconds(range.high));
}

std::string rate_range_text(double rate, double share) {
  const Range range = rate_range(rate, share);
  return fmt::format("{:.0f} to {:.0f}", range.low, range.high);
}

nlohmann::ordered_json range_json(const Range& range) { return nlohmann::ordered_json::array({range.low, range.high}); }

std::string calibration_note(const Machine& machine) {
  const double percent = 100 * step_error_share(machine);
  if (machine.measured)
    return fmt::format(
        "calibrated: steps predicted from a profile were within {:.0f} % of measured ones, where those were steady",
        percent);
  return fmt::format(
      "uncalibrated: {} is known from a hardware file, and steps predicted so were within {:.0f} % of published ones; "
      "`penstock-exec calibrate` on the machine writes a profile for --profile",
      machine.name, percent);
}

}  // namespace penstock::sim
