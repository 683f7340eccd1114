#include "sim/validate/error_bar.h"

namespace penstock::sim {

ErrorRange class_error_range(RateClass rates) {
  switch (rates) {
    case RateClass::measured: return kMeasuredRange;
    case RateClass::inferred: return kInferredRange;
    case RateClass::convention: return kConventionRange;
  }
  return kConventionRange;
}

ErrorRange step_error_range(const Machine& machine) {
  return machine.measured ? kProfileRange : machine.error.value_or(class_error_range(machine.rates));
}

Range step_range(double seconds, const ErrorRange& error) {
  return {seconds / (1 + error.high), seconds / (1 + error.low)};
}

Range rate_range(double rate, const ErrorRange& error) { return {rate * (1 + error.low), rate * (1 + error.high)}; }

}  // namespace penstock::sim
