#include "shared/compare/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace penstock {

std::string bytes_text(double bytes) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits{
      {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}};
  for (const auto& [size, unit] : kUnits)
    if (std::abs(bytes) >= size) return fmt::format("{:.2f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size >= 100) return fmt::format("{:.1f} s", seconds);
  if (size >= 1) return fmt::format("{:.3f} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string percent_text(double share) { return fmt::format("{:+.2f} %", share * 100); }

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
