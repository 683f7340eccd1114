// How wide a printed range has to be: from how far predictions missed rows that no file was made from.
//
// Of one system on one machine, a fortieth of the rows may lie outside on either side, so that 95 % and more lie
// inside. A file that at least kFewestRows rows test states a range of its own (error_low, error_high under
// [accuracy]), which holds the rows of each of its systems so; where all of them are of one system, the file is not
// known to be better than its class, and the range holds that of the class too. A class's range holds rows of all its
// files, each system on each machine counting alike however many rows it has. Limits are whole per cent, rounded
// outwards.
#pragma once

#include <string>
#include <vector>

#include "sim/validate/validation.h"

namespace penstock::sim {

/// A row that tests a file.
struct Miss {
  std::string system, machine;
  RateClass rates = RateClass::convention;
  double error = 0;    // (predicted - measured) / measured
  ErrorRange printed;  // beside the prediction
};

/// Of the rows with a step that lack nothing and that no file was made from.
std::vector<Miss> misses_of(const std::vector<PublishedRow>& rows);
/// Of recorded runs that were predicted from a hardware file or a profile, as rows of one system.
std::vector<Miss> misses_of(const std::vector<RecordedRow>& rows);

inline constexpr int kFewestRows = 5;

struct RangeEvidence {
  std::string machine;  // empty: of the class
  RateClass rates = RateClass::convention;
  int rows = 0, systems = 0, inside = 0;
  ErrorRange needed, printed;

  bool holds() const { return printed.low <= needed.low && needed.high <= printed.high; }
};

/// All rows of the class, whatever range their own file states. REQUIRES: at least one row of that class.
RangeEvidence class_evidence(const std::vector<Miss>& misses, RateClass rates);

/// By machine, of those with at least kFewestRows rows.
std::vector<RangeEvidence> file_evidence(const std::vector<Miss>& misses);

}  // namespace penstock::sim
