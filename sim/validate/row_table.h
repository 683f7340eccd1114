// A table of published figures: a CSV whose header names keys of a scenario, and whose rows are overrides of the base
// scenario that names it under [published] rows.
//   name,model.config,machine.hbm,published.step        the first column names the row
//   a100-1,models/8b.json,40 GiB,9.4 s                  an empty cell overrides nothing; "..." around commas
// Lines that begin with # are remarks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::sim {

struct TableRow {
  std::string name;
  std::vector<std::string> overrides;  // "key=value", as --set takes them
};

/// Throws InputError with the line: no column `name`, a row with another number of cells, a name that stands twice, an
/// open quotation mark.
std::vector<TableRow> read_row_table(const std::filesystem::path& path);

}  // namespace penstock::sim
