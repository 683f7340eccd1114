#include "sim/validate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "shared/compare/recording.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/memory.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/median.h"
#include "shared/units.h"
#include "sim/planner/parallel.h"
#include "sim/simulate.h"
#include "sim/software/added_memory.h"
#include "sim/validate/row_table.h"

namespace penstock::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxBytes = 64 << 20;

/// What a JSON file is, as far as that decides whether it is a recording; whoever reads it says what else is wrong.
enum class JsonKind { recording, beside };  // beside: what a recording needs, its profile or its model's config.json

JsonKind kind_of(const fs::path& file) {
  const nlohmann::json json = nlohmann::json::parse(read_text_file(file, kMaxBytes), nullptr, false);
  if (!json.is_object()) return JsonKind::recording;
  if (!json.contains("format")) return json.contains("model_type") ? JsonKind::beside : JsonKind::recording;
  return json["format"] == "penstock-profile/1" ? JsonKind::beside : JsonKind::recording;
}

/// Median seconds of each op over the predicted steps.
std::vector<double> op_seconds(const Schedule& schedule, const Timeline& timeline) {
  std::vector<std::vector<double>> durations(schedule.ops.size());
  for (const OpTime& time : timeline.ops) durations[static_cast<std::size_t>(time.op)].push_back(time.end - time.start);
  std::vector<double> medians;
  for (std::vector<double>& seconds : durations) medians.push_back(median(std::move(seconds)));
  return medians;
}

void compare_ops(const Schedule& schedule, const Prediction& prediction, const Recording& recording, RecordedRow& row) {
  if (!row.same_schedule || recording.op_seconds.size() != schedule.ops.size()) return;
  const std::vector<double> predicted = op_seconds(schedule, prediction.timeline);
  row.phase_seconds.emplace();
  for (const Op& op : schedule.ops) {
    if (std::holds_alternative<WaitWork>(op.work)) continue;
    const auto index = static_cast<std::size_t>(op.id);
    const Pair seconds{predicted[index], recording.op_seconds[index]};
    if (std::holds_alternative<TemplateWork>(op.work) || std::holds_alternative<OptimizerWork>(op.work)) {
      Pair& phase = (*row.phase_seconds)[static_cast<std::size_t>(op.phase)];
      phase.predicted += seconds.predicted;
      phase.measured += seconds.measured;
    }
    if (row.worst_op && std::abs(seconds.difference()) <= std::abs(row.worst_op->seconds.difference())) continue;
    row.worst_op = OpError{op.id, seconds, seconds.difference() / recording.step_seconds};
    row.worst_op_name = op.name;
  }
}

std::vector<TierComparison> compare_peaks(const std::vector<TierMemory>& predicted,
                                          const std::vector<TierPeak>& peaks) {
  std::vector<TierComparison> tiers;
  for (const TierPeak& peak : peaks) {
    double bytes = 0;
    for (const TierMemory& tier : predicted)
      if (tier.tier.kind == peak.tier) bytes = std::max(bytes, static_cast<double>(tier.arena_bytes));
    tiers.push_back({peak.tier, {bytes, static_cast<double>(peak.bytes)}});
  }
  return tiers;
}

RecordedRow predict_recording(const fs::path& file, const std::string& name, const fs::path& hardware) {
  const Recording recording = read_recording(file);
  Scenario scenario = recorded_scenario(recording, file);
  // The schedule is that of the machine that was measured.
  if (!hardware.empty()) {
    scenario.machine = read_hardware(hardware);
    scenario.machine.gpu.deterministic = scenario.run.deterministic;
  }
  const Schedule schedule = make_schedule(scenario.policy_input());
  const Prediction prediction = simulate(schedule, scenario.machine);
  RecordedRow row;
  row.scenario = name;
  row.machine = scenario.machine.name;
  row.model = scenario.model.config.name;
  row.policy = schedule.policy;
  row.sequence_length = scenario.sequence_length;
  row.sequences = scenario.sequences;
  row.step_seconds = {prediction.step_seconds, recording.step_seconds};
  row.stall_seconds = {prediction.stalls.total_seconds, recording.stall_seconds};
  row.signed_error = row.step_seconds.difference() / recording.step_seconds;
  row.step_error = std::abs(row.signed_error);
  row.stall_error = std::abs(row.stall_seconds.difference()) / recording.step_seconds;
  row.spread = recording.spread;
  row.periods = recording.periods;
  row.rates = scenario.machine.rates;
  row.printed = step_error_range(scenario.machine);
  row.tiers = compare_peaks(prediction.memory, recording.peaks);
  row.same_schedule = schedule_hash(schedule) == recording.schedule_hash;
  compare_ops(schedule, prediction, recording, row);
  return row;
}

/// Everything that a machine lacks: "hbm needs 100 GiB and has 80".
std::string excess_of(const std::vector<TierMemory>& memory) {
  std::string text;
  for (const TierMemory& tier : memory)
    if (tier.arena_bytes > tier.tier.capacity_bytes)
      text += fmt::format("{}{} needs {} of {}", text.empty() ? "" : ", ",
                          tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                          format_bytes(static_cast<double>(tier.arena_bytes)),
                          format_bytes(static_cast<double>(tier.tier.capacity_bytes)));
  return text;
}

PublishedRow predict_published(const Scenario& scenario, const std::string& name) {
  const Schedule schedule = make_schedule(scenario.policy_input());
  const Published& published = *scenario.published;
  SimulateOptions options;
  options.record_timeline = false;
  const Prediction prediction = simulate(schedule, scenario.machine, options);
  PublishedRow row;
  row.scenario = name;
  row.machine = scenario.machine.name;
  row.model = scenario.model.config.name;
  row.policy = schedule.policy;
  row.system = published_system(scenario);
  row.calibrates = published.calibrates;
  row.rates = scenario.machine.rates;
  row.sequence_length = scenario.sequence_length;
  row.printed = step_error_range(scenario.machine);
  row.step_range = step_range(prediction.step_seconds, row.printed);
  row.source = published.source;
  row.assumed = published.assumed;
  if (published.step_seconds > 0) {
    row.step_seconds = Pair{prediction.step_seconds, published.step_seconds};
    row.signed_error = row.step_seconds->difference() / published.step_seconds;
  }
  for (const TierMemory& tier : prediction.memory)
    if (tier.tier.kind == TierKind::hbm && published.hbm_bytes > 0)
      row.hbm_bytes = Pair{static_cast<double>(tier.arena_bytes), static_cast<double>(published.hbm_bytes)};
  row.published_fits = published.fits;
  row.excess = published_excess(scenario, prediction.memory);
  row.fits = row.excess.empty();
  return row;
}

std::vector<PublishedRow> predict_table(const fs::path& base, const std::string& name, const fs::path& csv) {
  const std::vector<TableRow> table = read_row_table(csv);
  std::vector<PublishedRow> rows(table.size());
  const std::size_t threads = thread_count(0);
  parallel_for(table.size(), threads, [&](std::size_t i, std::size_t) {
    rows[i] = predict_published(read_table_row(base, csv, table[i]), name + "/" + table[i].name);
    rows[i].table = name;
  });
  return rows;
}

/// Kendall's tau within one workload.
void count_order(const std::vector<const PublishedRow*>& workload, int& concordant, int& discordant) {
  for (std::size_t i = 0; i < workload.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Pair &a = *workload[i]->step_seconds, &b = *workload[j]->step_seconds;
      if (std::abs(a.measured - b.measured) <= kOrderNoise * std::min(a.measured, b.measured)) continue;
      const double agrees = (a.predicted - b.predicted) * (a.measured - b.measured);
      concordant += agrees > 0;
      discordant += agrees < 0;
    }
}

GroupErrors errors_of(const std::vector<const PublishedRow*>& rows) {
  GroupErrors errors;
  errors.system = rows.front()->system;
  errors.machine = rows.front()->machine;
  errors.rates = rows.front()->rates;
  errors.rows = static_cast<int>(rows.size());
  std::vector<double> sizes;
  std::map<std::pair<std::string, std::int64_t>, std::vector<const PublishedRow*>> workloads;
  for (const PublishedRow* row : rows) {
    sizes.push_back(std::abs(row->signed_error));
    errors.mean_signed += row->signed_error / errors.rows;
    errors.mean += sizes.back() / errors.rows;
    const double measured = row->step_seconds->measured;
    errors.in_range += row->step_range.low <= measured && measured <= row->step_range.high;
    workloads[{row->model, row->sequence_length}].push_back(row);
  }
  std::sort(sizes.begin(), sizes.end());
  errors.ninth_decile = sizes[(9 * sizes.size() + 9) / 10 - 1];
  errors.maximum = sizes.back();
  int concordant = 0, discordant = 0;
  for (const auto& [workload, members] : workloads) count_order(members, concordant, discordant);
  errors.pairs = concordant + discordant;
  if (errors.pairs > 0) errors.tau = static_cast<double>(concordant - discordant) / errors.pairs;
  return errors;
}

/// Mean, median, maximum of |error|.
template <typename Row, typename Error>
ErrorSummary summary(const std::vector<Row>& rows, Error error_of) {
  ErrorSummary result;
  std::vector<double> errors;
  for (const Row& row : rows) {
    const std::optional<double> error = error_of(row);
    if (!error) continue;
    errors.push_back(std::abs(*error));
    if (errors.size() == 1 || errors.back() > result.maximum) {
      result.maximum = errors.back();
      result.worst = row.scenario;
    }
  }
  if (errors.empty()) return result;
  result.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  result.median = median(std::move(errors));
  return result;
}

void require_published(const Scenario& scenario, const fs::path& file) {
  if (!scenario.published)
    throw InputError(
        fmt::format("{}: has no table [published], so there is nothing to hold a prediction against", file.string()));
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json" || entry->path().extension() == ".toml") files.push_back(entry->path());
  if (error)
    throw InputError(fmt::format("{}: cannot be listed: {}; a folder with recordings or published scenarios is wanted",
                                 folder.string(), why_not_read(folder, error.value())));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string published_system(const Scenario& scenario) {
  return scenario.published->system.empty() ? scenario.policy.name : scenario.published->system;
}

std::string published_excess(const Scenario& scenario, const std::vector<TierMemory>& memory) {
  const SoftwareMemory software =
      scenario.software.empty() ? SoftwareMemory{} : read_software_memory(scenario.software);
  return software.items.empty() ? excess_of(memory) : excess_text(system_memory(software, scenario, memory));
}

Scenario read_table_row(const fs::path& base, const fs::path& table, const TableRow& row) {
  try {
    return read_scenario(base, row.overrides);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: row \"{}\": {}", table.string(), row.name, error.what()));
  }
}

std::vector<fs::path> published_files(const fs::path& folder) {
  std::vector<fs::path> files = files_below(folder);
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".toml"; });
  if (files.empty()) throw InputError(fmt::format("{}: holds no scenario with [published]", folder.string()));
  for (const fs::path& file : files) require_published(read_scenario(file), file);
  return files;
}

Rows validate_folder(const fs::path& folder, const std::function<void(const std::string&)>& progress,
                     const fs::path& hardware) {
  Rows rows;
  for (const fs::path& file : files_below(folder)) {
    const std::string name = fs::path(file).replace_extension().lexically_relative(folder).generic_string();
    const bool scenario = file.extension() == ".toml";
    if (!scenario && kind_of(file) == JsonKind::beside) continue;
    if (progress) progress(name);
    if (!scenario) {
      rows.recorded.push_back(predict_recording(file, name, hardware));
      continue;
    }
    const Scenario published = read_scenario(file);
    require_published(published, file);
    if (published.published->rows.empty()) {
      rows.published.push_back(predict_published(published, name));
      continue;
    }
    for (PublishedRow& row : predict_table(file, name, published.published->rows))
      rows.published.push_back(std::move(row));
  }
  if (rows.recorded.empty() && rows.published.empty())
    throw InputError(
        fmt::format("{}: holds no recording (`penstock-exec run --record`) and no scenario with "
                    "[published]: there is nothing to validate",
                    folder.string()));
  return rows;
}

ErrorSummary step_errors(const std::vector<RecordedRow>& rows) {
  return summary(rows, [](const RecordedRow& row) { return std::optional(row.step_error); });
}

ErrorSummary stall_errors(const std::vector<RecordedRow>& rows) {
  return summary(rows, [](const RecordedRow& row) { return std::optional(row.stall_error); });
}

ErrorSummary phase_errors(const std::vector<RecordedRow>& rows, Phase phase) {
  return summary(rows, [phase](const RecordedRow& row) -> std::optional<double> {
    if (!row.phase_seconds) return std::nullopt;
    const Pair& seconds = (*row.phase_seconds)[static_cast<std::size_t>(phase)];
    if (seconds.measured < kNotablePhase * row.step_seconds.measured) return std::nullopt;
    return seconds.difference() / seconds.measured;
  });
}

ErrorSummary published_errors(const std::vector<PublishedRow>& rows) {
  return summary(
      rows, [](const PublishedRow& row) { return row.step_seconds ? std::optional(row.signed_error) : std::nullopt; });
}

std::vector<GroupErrors> group_errors(const std::vector<PublishedRow>& rows,
                                      const std::function<bool(const PublishedRow&)>& wanted) {
  std::map<std::pair<std::string, std::string>, std::vector<const PublishedRow*>> groups;
  for (const PublishedRow& row : rows)
    if (row.step_seconds && wanted(row)) groups[{row.system, row.machine}].push_back(&row);
  std::vector<GroupErrors> result;
  for (const auto& [group, members] : groups) result.push_back(errors_of(members));
  return result;
}

RankCorrelation rank_correlation(const std::vector<RecordedRow>& rows) {
  RankCorrelation result;
  const auto workload = [](const RecordedRow& row) { return std::tie(row.model, row.sequence_length, row.sequences); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (workload(rows[i]) != workload(rows[j])) continue;
      const Pair &a = rows[i].step_seconds, &b = rows[j].step_seconds;
      const double apart = a.measured - b.measured;
      if (std::abs(apart) <= std::max(rows[i].spread, rows[j].spread) * std::min(a.measured, b.measured)) continue;
      ++result.pairs;
      const double predicted = (a.predicted - b.predicted) * apart;
      if (predicted > 0) ++result.concordant;
      if (predicted < 0) ++result.discordant;
    }
  }
  return result;
}

}  // namespace penstock::sim
