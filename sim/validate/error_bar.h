// How far off a predicted step may be, from how far off predictions have been (docs/validation.md, "Error bars").
//
// The error of a step is (predicted - measured) / measured. If it lies between `low` (below 0: predicted too fast) and
// `high`, the measured step lies between predicted / (1 + high) and predicted / (1 + low), and the measured throughput
// between predicted x (1 + low) and predicted x (1 + high). The tests of sim/validate hold both constants against what
// is recorded.
#pragma once

#include "shared/machine/machine.h"

namespace penstock::sim {

/// From a hardware file alone, by where its rates are from; of the rows that no file was made from, 95 % and more are
/// off by less (`penstock-sim validate`, tests/sim/validate/corpus_test.cpp).
///   measured    18 recorded runs on an H200 by `--hardware`, the largest 6.96 %; other systems there, below
///   inferred    364 rows of ml_dataflow on four cards, the largest 14.31 %
///               57 rows of other systems on eight machines, two of them off by more: 15.98 and, of a measured
///               card, 11.14
///   convention  10 rows of MegaTrain on GH200 and ZeRO-3 on RTX 4090 while those cards' rates were by convention, the
///               largest 26.52 %
inline constexpr double kMeasuredRatesError = 0.08;
inline constexpr double kInferredRatesError = 0.15;
inline constexpr double kHardwareFileError = 0.27;
/// From a profile: the threshold that recorded runs are held to, stated before anything was measured. Of 18 runs one is
/// off by more, 6.11 %, and its own steps spread over 8.24 % (`penstock-sim validate scenarios/measured/h200`).
inline constexpr double kProfileError = 0.06;

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
