// Tables for a terminal.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Rows laid out as a table: the first column to the left, the others to the right, two blanks between. A row with a
/// single cell is a heading and takes no part in the widths.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// Signed, two decimals: "+1.25 %", "-0.30 %", "0.00 %". `share` 1 is 100 %.
std::string percent_text(double share);

}  // namespace penstock
