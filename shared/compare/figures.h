// Figures as people read them. Decimal units only: 1 GB = 1e9 bytes, so that no table mixes GB with GiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// "512 B", "1.50 kB", "24.00 GB", "-1.25 MB".
std::string bytes_text(double bytes);
/// "1.234 s", "12.345 ms", "3.2 us", "0 s".
std::string seconds_text(double seconds);
/// Signed, two decimals: "+1.25 %", "-0.30 %". `share` 1 is 100 %.
std::string percent_text(double share);

/// Rows of equal length laid out as a table for a terminal: the first column to the left, the others to the right,
/// two blanks between. A row with a single cell is a heading and takes no part in the widths.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace penstock
