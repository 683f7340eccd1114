#include "sim/program/bill_table.h"

#include <fmt/format.h>

#include "shared/compare/table.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

std::string range_text(const std::optional<Way>& way) {
  if (!way) return "no price";
  return fmt::format("{}{} ({} to {})", euros_text(way->euros), way->assumed ? "*" : "", euros_text(way->range.low),
                     euros_text(way->range.high));
}

}  // namespace

std::string bills_text(const std::vector<std::pair<std::string, std::optional<Bill>>>& bills) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, bill] : bills) {
    if (!bill) continue;
    if (rows.empty()) rows.push_back({bill->amount, "time", "bought", "rented"});
    rows.push_back({name, hours_text(bill->hours), range_text(bill->bought), range_text(bill->rented)});
  }
  if (rows.empty()) return "";
  return fmt::format(
      "{}Bought: the price over its life and electricity, for those hours; in brackets with the error of a "
      "prediction.\n",
      table_text(rows));
}

}  // namespace penstock::sim
