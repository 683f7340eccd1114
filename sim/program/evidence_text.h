// What `validate` says besides errors: the ranges that they make, and which rows fit.
#pragma once

#include <string>
#include <vector>

#include "sim/program/commands.h"
#include "sim/validate/range_evidence.h"

namespace penstock::sim {

/// For each class and file what its rows need and what is printed, and how many of all rows lie inside; empty without
/// rows.
std::string evidence_text(const std::vector<Miss>& misses);

/// `validate --fits`.
int validate_fits(const ValidateOptions& options);

}  // namespace penstock::sim
