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

namespace {

/// The cell in lines of at most `width` characters, cut behind commas and else at blanks; a word may be longer.
std::vector<std::string> wrapped(const std::string& cell, std::size_t width) {
  const std::size_t indent = cell.find_first_not_of(' ');
  const std::string hang(indent == std::string::npos ? 0 : indent + 2, ' ');
  std::vector<std::string> lines;
  std::string rest = cell;
  while (rest.size() > width) {
    const std::size_t first = rest.find_first_not_of(' ');
    std::size_t cut = rest.rfind(", ", width - 1);
    cut = cut == std::string::npos || cut <= first ? rest.rfind(' ', width) : cut + 1;
    if (cut == std::string::npos || cut <= first) cut = rest.find(' ', first);
    if (cut == std::string::npos) break;
    lines.push_back(rest.substr(0, cut));
    rest = hang + rest.substr(cut + 1);
  }
  lines.push_back(rest);
  return lines;
}

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t width) {
  std::size_t others = 0;  // columns behind the first
  for (std::size_t column = 1; column < (rows.empty() ? 0 : rows.front().size()); ++column) {
    std::size_t widest = 0;
    for (const auto& row : rows)
      if (column < row.size()) widest = std::max(widest, row[column].size());
    others += widest + 2;
  }
  std::vector<std::vector<std::string>> cut;
  for (const auto& row : rows) {
    const std::vector<std::string> lines = wrapped(row.front(), width > others ? width - others : 1);
    cut.push_back(row);
    cut.back().front() = lines.front();
    for (std::size_t i = 1; i < lines.size(); ++i) cut.push_back({lines[i], ""});
  }
  return table_text(cut);
}

}  // namespace penstock
