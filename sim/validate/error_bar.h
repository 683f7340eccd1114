// How far off a predicted step may be, from how far off predictions have been (docs/validation.md, "Error bars").
//
// The error of a step is (predicted - measured) / measured. If it is at most `share` either way, the measured step lies
// between predicted / (1 + share) and predicted / (1 - share), and the measured throughput between predicted x (1 -
// share) and predicted x (1 + share). The tests of sim/validate hold both constants against what is recorded.
#pragma once

#include "shared/machine/machine.h"

namespace penstock::sim {

/// From a hardware file alone: the largest error over the published rows that lack nothing, 26.88 %, rounded up
/// (`penstock-sim validate scenarios/published`).
inline constexpr double kHardwareFileError = 0.27;
/// From a profile: the threshold that recorded runs are held to, stated before anything was measured. Of 18 runs one is
/// off by more, 6.11 %, and its own steps spread over 8.24 % (`penstock-sim validate scenarios/measured/h200`).
inline constexpr double kProfileError = 0.06;

/// The share for a prediction on this machine.
double step_error_share(const Machine& machine);

struct Range {
  double low = 0;
  double high = 0;
};
Range step_range(double seconds, double share);  // what may be measured where `seconds` are predicted
Range rate_range(double rate, double share);     // the same for what is counted per second

}  // namespace penstock::sim
