#include "sim/validate/row_table.h"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <string_view>

#include "shared/error.h"
#include "shared/files.h"

namespace penstock::sim {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;

std::vector<std::string> cells_of(std::string_view line, const std::string& place) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        cells.back() += line[i++];
      else
        quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  if (quoted) throw InputError(place + ": a quotation mark is not closed");
  return cells;
}

}  // namespace

std::vector<TableRow> read_row_table(const std::filesystem::path& path) {
  std::istringstream lines(read_text_file(path, kMostBytes));
  std::vector<std::string> header;
  std::vector<TableRow> rows;
  std::set<std::string> names;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}:{}", path.string(), ++number);
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> cells = cells_of(line, place);
    if (header.empty()) {
      header = std::move(cells);
      if (header.front() != "name")
        throw InputError(fmt::format("{}: the first column must be \"name\", found \"{}\"", place, header.front()));
      continue;
    }
    if (cells.size() != header.size())
      throw InputError(fmt::format("{}: {} cells, the header has {}", place, cells.size(), header.size()));
    if (!names.insert(cells.front()).second)
      throw InputError(fmt::format("{}: a row of the name \"{}\" stands there already", place, cells.front()));
    TableRow row{cells.front(), {}};
    for (std::size_t i = 1; i < cells.size(); ++i)
      if (!cells[i].empty()) row.overrides.push_back(fmt::format("{}={}", header[i], cells[i]));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw InputError(fmt::format("{}: has no rows", path.string()));
  return rows;
}

}  // namespace penstock::sim
