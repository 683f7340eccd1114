#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"
#include "sim/front_desk.h"
#include "sim/planner/progress.h"
#include "sim/program/commands.h"
#include "sim/program/evidence_text.h"
#include "sim/program/memory_text.h"
#include "sim/program/range_text.h"
#include "sim/validate/validation.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

std::string share_text(double share) { return fmt::format("{:.2f} %", share * 100); }

std::string summary_text(const char* what, const ErrorSummary& errors) {
  return fmt::format("{:<11} mean {:.2f} %, median {:.2f} %, maximum {:.2f} % ({})\n", what, errors.mean * 100,
                     errors.median * 100, errors.maximum * 100, errors.worst);
}

/// "exact", or the tiers whose arena differs.
std::string peaks_text(const RecordedRow& row) {
  std::string text;
  for (const TierComparison& tier : row.tiers)
    if (tier.peak_bytes.difference() != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tier_names()[static_cast<std::size_t>(tier.tier)],
                          bytes_error_text(tier.peak_bytes.predicted, tier.peak_bytes.measured));
  return text.empty() ? "exact" : text;
}

std::string recorded_text(const std::vector<RecordedRow>& rows) {
  std::vector<std::vector<std::string>> table{
      {"recording", "measured", "predicted", "error", "stall measured", "predicted", "error", "spread", "peak bytes"}};
  int stale = 0;
  for (const RecordedRow& row : rows) {
    stale += row.same_schedule ? 0 : 1;
    table.push_back({row.scenario + (row.same_schedule ? "" : " *"), format_seconds(row.step_seconds.measured),
                     format_seconds(row.step_seconds.predicted), percent_text(row.signed_error),
                     format_seconds(row.stall_seconds.measured), format_seconds(row.stall_seconds.predicted),
                     share_text(row.stall_error), row.periods == 1 ? "-" : share_text(row.spread), peaks_text(row)});
  }
  std::string text = table_text(table) + "\n";
  text += summary_text("step error", step_errors(rows)) + summary_text("stall error", stall_errors(rows));
  for (std::size_t i = 0; i < phase_names().size(); ++i)
    if (const ErrorSummary errors = phase_errors(rows, static_cast<Phase>(i)); !errors.worst.empty())
      text += summary_text(fmt::format("{}", phase_names()[i]).c_str(), errors);
  const RankCorrelation order = rank_correlation(rows);
  text += order.pairs == 0
              ? std::string("order       no two policies of one workload differ by more than their spread\n")
              : fmt::format("order       Kendall tau {:.3f} over {} pairs of policies ({} in the wrong order)\n",
                            order.tau(), order.pairs, order.discordant);
  int inside = 0;
  const std::vector<Miss> misses = misses_of(rows);
  for (const Miss& miss : misses) inside += miss.printed.low <= miss.error && miss.error <= miss.printed.high;
  text += fmt::format("in range    {} of {} inside what is printed, {}\n", inside, misses.size(),
                      sides_text(misses.front().printed));
  text += "Errors of step and stall are shares of the measured step, a phase's of what the phase's ops took.\n";
  if (stale > 0)
    text += fmt::format("* {} of another schedule than the policy writes now: record anew.\n",
                        stale == 1 ? "one recording is" : fmt::format("{} recordings are", stale));
  return text;
}

std::string yes_of(bool is) { return is ? "yes" : "no"; }

std::string one_by_one_text(const std::vector<PublishedRow>& rows) {
  std::vector<std::vector<std::string>> table{
      {"published", "step", "predicted", "predicted / published", "HBM", "predicted", "fits", "predicted"}};
  for (const PublishedRow& row : rows) {
    const bool step = row.step_seconds.has_value(), hbm = row.hbm_bytes.has_value();
    table.push_back(
        {row.scenario + (row.assumed.empty() ? "" : " *"), step ? format_seconds(row.step_seconds->measured) : "-",
         step ? format_seconds(row.step_seconds->predicted) : "-",
         step ? fmt::format("{:.2f}", 1 + row.signed_error) : "-",
         hbm ? format_bytes_gib(row.hbm_bytes->measured) : "-", hbm ? format_bytes_gib(row.hbm_bytes->predicted) : "-",
         row.published_fits ? yes_of(*row.published_fits) : "-", yes_of(row.fits)});
  }
  return table_text(table) + "\n";
}

/// A line for each system and machine, then the mean of the systems' means.
std::string groups_text(const std::vector<PublishedRow>& rows) {
  const auto tests = [](const PublishedRow& row) { return row.assumed.empty() && !row.calibrates; };
  const std::vector<GroupErrors> groups = group_errors(rows, tests);
  if (groups.empty()) return {};
  std::vector<std::vector<std::string>> table{
      {"system", "machine", "rates", "rows", "mean", "|mean|", "90 %", "maximum", "in range", "order"}};
  static constexpr const char* kClasses[] = {"measured", "inferred", "convention"};
  std::map<std::pair<bool, std::string>, std::pair<double, int>>
      systems;  // [by convention, system]: sum of errors, rows
  for (const GroupErrors& group : groups) {
    table.push_back({group.system, group.machine, kClasses[static_cast<int>(group.rates)],
                     fmt::format("{}", group.rows), percent_text(group.mean_signed), share_text(group.mean),
                     share_text(group.ninth_decile), share_text(group.maximum),
                     fmt::format("{:.0f} %", 100.0 * group.in_range / group.rows),
                     group.pairs > 0 ? fmt::format("{:.2f}", group.tau) : "-"});
    auto& [sum, count] = systems[{group.rates == RateClass::convention, group.system}];
    sum += group.mean * group.rows;
    count += group.rows;
  }
  std::string text = table_text(table) + "\n";
  for (const bool convention : {false, true}) {
    double mean = 0;
    int count = 0, total = 0;
    for (const auto& [key, sums] : systems) {
      if (key.first != convention) continue;
      mean += sums.first / sums.second;
      total += sums.second;
      ++count;
    }
    if (count > 0)
      text += fmt::format("{}: mean of {} systems' means {:.2f} % ({} rows)\n",
                          convention ? "cards by convention" : "cards with measured or inferred rates", count,
                          mean / count * 100, total);
  }
  return text +
         "mean: signed, + is predicted too slow; 90 %: nine tenths are off by no more; in range: inside the printed "
         "range; order: Kendall's tau within workloads.\nOnly rows that lack nothing and that no file was made from.\n";
}

std::string published_text(const std::vector<PublishedRow>& rows, bool all) {
  std::vector<PublishedRow> single = rows, known = rows;
  if (!all) std::erase_if(single, [](const PublishedRow& row) { return !row.table.empty(); });
  std::string text = single.empty() ? "" : one_by_one_text(single);
  if (single.size() < rows.size())
    text += fmt::format("{} rows of tables, below by system and machine; --all lists them\n\n",
                        rows.size() - single.size());
  text += groups_text(rows) + "\n";
  if (const std::string ranges = evidence_text(misses_of(rows)); !ranges.empty()) text += ranges + "\n";
  text += summary_text("step error", published_errors(rows));
  std::erase_if(known, [](const PublishedRow& row) { return !row.assumed.empty(); });
  if (known.size() < rows.size()) {
    text += summary_text("without *", published_errors(known));
    text += "* something that decides the figure was not published; the scenario says what.\n";
  }
  for (const PublishedRow& row : single)
    if (!row.fits) text += fmt::format("{}: {}\n", row.scenario, row.excess);
  return text;
}

ordered_json recorded_json(const RecordedRow& row) {
  ordered_json peaks = ordered_json::object();
  for (const TierComparison& tier : row.tiers)
    peaks[std::string(tier_names()[static_cast<std::size_t>(tier.tier)])] = {{"predicted", tier.peak_bytes.predicted},
                                                                             {"measured", tier.peak_bytes.measured}};
  ordered_json json = {{"scenario", row.scenario},
                       {"measured", row.step_seconds.measured},
                       {"predicted", row.step_seconds.predicted},
                       {"step_error", row.step_error},
                       {"signed_error", row.signed_error},
                       {"stall_measured", row.stall_seconds.measured},
                       {"stall_predicted", row.stall_seconds.predicted},
                       {"stall_error", row.stall_error},
                       {"spread", row.spread},
                       {"periods", row.periods},
                       {"machine", row.machine},
                       {"model", row.model},
                       {"policy", row.policy},
                       {"sequence_length", row.sequence_length},
                       {"sequences", row.sequences},
                       {"same_schedule", row.same_schedule},
                       {"peak_bytes", peaks}};
  if (row.phase_seconds)
    for (std::size_t i = 0; i < phase_names().size(); ++i)
      json["phase_seconds"][std::string(phase_names()[i])] = {{"predicted", (*row.phase_seconds)[i].predicted},
                                                              {"measured", (*row.phase_seconds)[i].measured}};
  if (row.worst_op)
    json["worst_op"] = {{"name", row.worst_op_name},
                        {"predicted", row.worst_op->seconds.predicted},
                        {"measured", row.worst_op->seconds.measured}};
  return json;
}

ordered_json published_json(const PublishedRow& row) {
  ordered_json json = {{"scenario", row.scenario},    {"measured", nullptr},    {"predicted", nullptr},
                       {"step_error", nullptr},       {"stall_error", nullptr}, {"source", row.source},
                       {"assumed", row.assumed},      {"machine", row.machine}, {"model", row.model},
                       {"policy", row.policy},        {"fits", row.fits},       {"system", row.system},
                       {"calibrates", row.calibrates}};
  if (row.step_seconds) {
    json["measured"] = row.step_seconds->measured;
    json["predicted"] = row.step_seconds->predicted;
    json["step_error"] = std::abs(row.signed_error);
    json["signed_error"] = row.signed_error;
    json["step_range"] = {row.step_range.low, row.step_range.high};
  }
  if (row.hbm_bytes)
    json["hbm_bytes"] = {{"predicted", row.hbm_bytes->predicted}, {"measured", row.hbm_bytes->measured}};
  if (row.published_fits) json["published_fits"] = *row.published_fits;
  return json;
}

}  // namespace

int validate(const ValidateOptions& options) {
  if (options.fits) return validate_fits(options);
  Rows rows;
  {
    StatusLine status("reading " + options.folder.string());
    rows = validate_folder(
        options.folder, [&](const std::string& name) { status.update("predicting " + name); }, options.hardware);
  }
  if (options.json) {
    ordered_json list = ordered_json::array();
    for (const RecordedRow& row : rows.recorded) list.push_back(recorded_json(row));
    for (const PublishedRow& row : rows.published) list.push_back(published_json(row));
    fmt::print("{}", json_text(list));
    return kExitDone;
  }
  if (!rows.recorded.empty()) fmt::print("{}", recorded_text(rows.recorded));
  if (!rows.recorded.empty() && !rows.published.empty()) fmt::print("\n");
  if (!rows.published.empty()) fmt::print("{}", published_text(rows.published, options.all));
  return kExitDone;
}

}  // namespace penstock::sim
