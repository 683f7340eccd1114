#include "sim/program/evidence_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "shared/compare/table.h"
#include "shared/error.h"
#include "sim/front_desk.h"
#include "sim/planner/progress.h"
#include "sim/program/memory_text.h"
#include "sim/program/range_text.h"
#include "sim/validate/capacity.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kFewMisfits = 20;

std::vector<std::string> evidence_row(const RangeEvidence& evidence) {
  const std::string name =
      evidence.machine.empty() ? fmt::format("all with {}", rates_text(evidence.rates)) : evidence.machine;
  return {name,
          fmt::format("{}", evidence.systems),
          fmt::format("{}", evidence.rows),
          sides_text(evidence.needed),
          sides_text(evidence.printed),
          evidence.holds() ? "" : "too narrow"};
}

std::string share_text(std::int64_t part, std::int64_t all) {
  return fmt::format("{} ({:.1f} %)", part,
                     all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

/// Rows up to each length.
std::string lengths_text(const std::vector<FitRow>& rows) {
  std::set<std::int64_t> lengths;
  for (const FitRow& row : rows) lengths.insert(row.sequence_length);
  std::vector<std::vector<std::string>> table{{"sequences up to", "rows", "fit as published", "fit under penstock"}};
  for (const std::int64_t length : lengths) {
    std::int64_t all = 0, published = 0, planned = 0;
    for (const FitRow& row : rows) {
      if (row.sequence_length > length) continue;
      ++all;
      published += row.as_published;
      planned += row.planned;
    }
    table.push_back(
        {fmt::format("{}", length), fmt::format("{}", all), share_text(published, all), share_text(planned, all)});
  }
  return table_text(table);
}

std::string misfits_text(const std::vector<FitRow>& rows, bool all) {
  std::string text;
  std::size_t left = all ? rows.size() : kFewMisfits, more = 0;
  for (const FitRow& row : rows) {
    if (row.planned && row.as_published) continue;
    if (left == 0) {
      ++more;
      continue;
    }
    --left;
    text += fmt::format("{}: {}{}\n", row.scenario, row.excess.empty() ? "no plan of penstock fits" : row.excess,
                        row.planned || row.excess.empty() ? "" : "; nor does a plan of penstock fit");
  }
  return more == 0 ? text : text + fmt::format("and {} more; --all lists them\n", more);
}

}  // namespace

std::string evidence_text(const std::vector<Miss>& misses) {
  if (misses.empty()) return {};
  std::vector<std::vector<std::string>> table{{"range", "systems", "rows", "needed", "printed", ""}};
  for (const RateClass rates : {RateClass::measured, RateClass::inferred, RateClass::convention})
    if (std::any_of(misses.begin(), misses.end(), [&](const Miss& miss) { return miss.rates == rates; }))
      table.push_back(evidence_row(class_evidence(misses, rates)));
  for (const RangeEvidence& evidence : file_evidence(misses)) table.push_back(evidence_row(evidence));
  std::int64_t inside = 0;
  for (const Miss& miss : misses) inside += miss.printed.low <= miss.error && miss.error <= miss.printed.high;
  return fmt::format(
      "{}\n{} of {} rows inside the printed range. Needed: of each system on a machine a fortieth may lie outside on "
      "either\nside; a file whose rows are all of one system needs what its class does.\n",
      table_text(table), share_text(inside, static_cast<std::int64_t>(misses.size())), misses.size());
}

int validate_fits(const ValidateOptions& options) {
  std::vector<FitRow> rows;
  {
    StatusLine status("reading " + options.folder.string());
    rows = fit_rows(options.folder, [&](const std::string& name) { status.update("placing " + name); });
  }
  if (options.json) {
    ordered_json list = ordered_json::array();
    for (const FitRow& row : rows)
      list.push_back({{"scenario", row.scenario},
                      {"system", row.system},
                      {"sequence_length", row.sequence_length},
                      {"fits", row.as_published},
                      {"fits_planned", row.planned},
                      {"excess", row.excess}});
    fmt::print("{}", json_text(list));
    return kExitDone;
  }
  std::map<std::string, std::vector<FitRow>> systems;
  for (const FitRow& row : rows) systems[row.system].push_back(row);
  for (const auto& [system, members] : systems) fmt::print("{}\n{}\n", system, lengths_text(members));
  fmt::print(
      "Rows that were published as fitting. As published: under the row's policy, with what the system's code adds "
      "where\nthat is known. Under penstock: some plan with the row's micro-batch and numerics, without a drive.\n{}",
      misfits_text(rows, options.all));
  return kExitDone;
}

}  // namespace penstock::sim
