// How far off a predicted step may be, from how far off predictions have been (docs/validation.md, "Error bars").
//
// The error of a step is (predicted - measured) / measured. If it lies between `low` (below 0: predicted too fast) and
// `high`, the measured step lies between predicted / (1 + high) and predicted / (1 + low), and the measured throughput
// between predicted x (1 + low) and predicted x (1 + high). The tests of sim/validate hold both constants against what
// is recorded.
#pragma once

#include "shared/machine/machine.h"

namespace penstock::sim {

/// From a hardware file alone, by where its rates are from, for files that state no range of their own ([accuracy]).
/// What `penstock-sim validate` finds anew (range_evidence.h), and tests/sim/validate/range_evidence_test.cpp holds to
/// it.
///   measured    24 rows on an H200: 18 recorded runs by `--hardware` and 6 of other systems
///   inferred    433 rows of twelve systems on eleven cards
///   convention  10 rows of MegaTrain on GH200 and ZeRO-3 on RTX 4090 while those cards' rates were by convention, the
///               largest 26.52 %
inline constexpr ErrorRange kMeasuredRange{-0.12, 0.07};
inline constexpr ErrorRange kInferredRange{-0.11, 0.15};
inline constexpr ErrorRange kConventionRange{-0.27, 0.27};
/// From a profile: the threshold that recorded runs are held to, stated before anything was measured. Of 18 runs one is
/// off by more, 6.11 % too fast, and its own steps spread over 8.24 % (`penstock-sim validate
/// scenarios/measured/h200`).
inline constexpr double kProfileError = 0.06;
inline constexpr ErrorRange kProfileRange{-0.07, kProfileError};

ErrorRange class_error_range(RateClass rates);

/// What the error of a step predicted on this machine may be: that of the hardware file where it says so, else one of
/// the constants either way.
ErrorRange step_error_range(const Machine& machine);

/// The larger side of a range, for readers that want one number.
inline double step_error_share(const ErrorRange& error) { return error.high > -error.low ? error.high : -error.low; }

struct Range {
  double low = 0;
  double high = 0;
};
Range step_range(double seconds, const ErrorRange& error);  // what may be measured where `seconds` are predicted
Range rate_range(double rate, const ErrorRange& error);     // the same for what is counted per second

}  // namespace penstock::sim
