#include "sim/program/range_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/units.h"

namespace penstock::sim {

std::string step_range_text(double seconds, const ErrorRange& error) {
  const Range range = step_range(seconds, error);
  return fmt::format("{} to {}", format_seconds(range.low), format_seconds(range.high));
}

std::string rate_range_text(double rate, const ErrorRange& error) {
  const Range range = rate_range(rate, error);
  return fmt::format("{:.0f} to {:.0f}", range.low, range.high);
}

nlohmann::ordered_json range_json(const Range& range) { return nlohmann::ordered_json::array({range.low, range.high}); }

const char* rates_text(RateClass rates) {
  switch (rates) {
    case RateClass::measured: return "rates measured on the card";
    case RateClass::inferred: return "rates inferred from published runs";
    case RateClass::convention: return "rates by convention from the datasheet";
  }
  return "";
}

std::string sides_text(const ErrorRange& error) {
  return fmt::format("{:+.0f} to {:+.0f} %", 100 * error.low, 100 * error.high);
}

std::string error_text(const ErrorRange& error) {
  const double low = -100 * error.low, high = 100 * error.high;
  if (error.low == -error.high) return fmt::format("within {:.0f} % of", high);
  return fmt::format("up to {:.0f} % shorter and {:.0f} % longer than", low, high);
}

nlohmann::ordered_json error_json(const ErrorRange& error) {
  return nlohmann::ordered_json::array({error.low, error.high});
}

std::string calibration_note(const Machine& machine) {
  if (machine.measured)
    return fmt::format("calibrated: steps predicted from a profile were {} measured ones, where those were steady",
                       error_text(kProfileRange));
  return fmt::format(
      "uncalibrated: {} is known from a hardware file ({}), and steps predicted so were {} published ones; "
      "`penstock-exec calibrate` on the machine writes a profile for --profile",
      machine.name, rates_text(machine.rates), error_text(step_error_range(machine)));
}

}  // namespace penstock::sim
