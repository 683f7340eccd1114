// Tables for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

/// Rows laid out as a table: the first column to the left, the others to the right, two blanks between. A row with a
/// single cell is a heading and takes no part in the widths.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// The same within `width` columns: cells of the first column that are longer go on in further lines, below and a little
/// to the right. REQUIRES: rows of one length.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t width);
inline constexpr std::size_t kTerminalColumns = 120;

/// Signed, two decimals: "+1.25 %", "-0.30 %", "0.00 %". `share` 1 is 100 %.
std::string percent_text(double share);

/// How far predicted bytes are off, as a share of the measured ones; where none were measured, the bytes themselves:
/// "+1.25 %", "20.00 MiB instead of none", "0.00 %".
std::string bytes_error_text(double predicted_bytes, double measured_bytes);

}  // namespace penstock
