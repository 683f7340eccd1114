#include "shared/compare/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/units.h"

namespace penstock {

std::string percent_text(double share) {
  const std::string text = fmt::format("{:+.2f} %", share * 100);
  return text == "+0.00 %" || text == "-0.00 %" ? "0.00 %" : text;
}

std::string bytes_error_text(double predicted_bytes, double measured_bytes) {
  if (predicted_bytes == measured_bytes) return percent_text(0);
  if (measured_bytes > 0) return percent_text((predicted_bytes - measured_bytes) / measured_bytes);
  return fmt::format("{} instead of none", format_bytes(predicted_bytes));
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (row.size() == 1) continue;
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row.size() == 1)
        line = row[i];
      else if (i == 0)
        line += fmt::format("{:<{}}", row[i], widths[i]);
      else
        line += fmt::format("  {:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace penstock
