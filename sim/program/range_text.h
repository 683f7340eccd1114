// The range that a prediction stands for (sim/validate/error_bar.h), in words and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/validate/error_bar.h"

namespace penstock::sim {

/// "8.914 s to 15.51 s": what may be measured where `seconds` are predicted.
std::string step_range_text(double seconds, const ErrorRange& error);
/// "10568 to 18386": the same for tokens/s.
std::string rate_range_text(double rate, const ErrorRange& error);
/// [low, high]
nlohmann::ordered_json range_json(const Range& range);

/// "rates measured on the card", and so on.
const char* rates_text(RateClass rates);
/// "within 6 % of", or "up to 12 % shorter and 9 % longer than".
std::string error_text(const ErrorRange& error);
/// "-16 to +13 %".
std::string sides_text(const ErrorRange& error);
nlohmann::ordered_json error_json(const ErrorRange& error);

/// One line: whether the machine is known from measurements or from datasheets only, and how wide that makes ranges.
std::string calibration_note(const Machine& machine);

}  // namespace penstock::sim
