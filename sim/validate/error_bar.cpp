#include "sim/validate/error_bar.h"

namespace penstock::sim {

ErrorRange step_error_range(const Machine& machine) {
  if (machine.measured) return {-kProfileError, kProfileError};
  const double share = machine.rates == RateClass::measured   ? kMeasuredRatesError
                       : machine.rates == RateClass::inferred ? kInferredRatesError
                                                              : kHardwareFileError;
  return machine.error.value_or(ErrorRange{-share, share});
}

Range step_range(double seconds, const ErrorRange& error) {
  return {seconds / (1 + error.high), seconds / (1 + error.low)};
}

Range rate_range(double rate, const ErrorRange& error) { return {rate * (1 + error.low), rate * (1 + error.high)}; }

}  // namespace penstock::sim
