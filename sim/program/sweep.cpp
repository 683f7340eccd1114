#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>

#include "shared/command_files.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/nearest_name.h"
#include "shared/units.h"
#include "sim/front_desk.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/drive_use.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/parallel.h"
#include "sim/planner/progress.h"
#include "sim/planner/search.h"
#include "sim/program/commands.h"
#include "sim/program/gentle_stop.h"
#include "sim/program/memory_text.h"
#include "sim/program/pages.h"
#include "sim/program/range_text.h"
#include "sim/simulate.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostRows = 100'000;
constexpr std::size_t kColumns = 9;  // behind those that vary

struct Axis {
  std::string key;  // "machine.hardware"
  std::vector<std::string> values;
};

/// "hardware=a,b" is machine.hardware, and names of the catalogue may stand for its files.
Axis parse_axis(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw InputError(
        fmt::format("--vary: expected KEY=VALUE,VALUE,..., such as workload.sequence_length=1024,4096; found \"{}\"",
                    text.substr(0, 60)));
  Axis axis{text.substr(0, equals), {}};
  if (axis.key == "hardware") axis.key = "machine.hardware";
  if (axis.key == "model") axis.key = "model.config";
  if (axis.key == "policy") axis.key = "policy.name";
  if (axis.key.find('.') == std::string::npos) {
    const std::vector<std::string> short_names{"hardware", "model", "policy"};
    const std::string nearest = nearest_name(axis.key, short_names);
    throw InputError(fmt::format("--vary {}: expected a key such as workload.sequences, or hardware, model or policy{}",
                                 axis.key.substr(0, 60),
                                 nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  std::string rest = text.substr(equals + 1);
  while (true) {
    const auto comma = rest.find(',');
    std::string value = rest.substr(0, comma);
    if (value.empty()) throw InputError(fmt::format("--vary {}: an empty value between the commas", axis.key));
    if (axis.key == "machine.hardware" && !value.ends_with(".toml")) value = fmt::format("hardware/{}.toml", value);
    if (axis.key == "model.config" && !value.ends_with(".json")) value = fmt::format("models/{}.json", value);
    axis.values.push_back(std::move(value));
    if (comma == std::string::npos) return axis;
    rest = rest.substr(comma + 1);
  }
}

/// A key varies once, and --set says nothing of it that no row would have.
void refuse_repeated(const std::vector<Axis>& axes, const std::vector<std::string>& overrides) {
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (std::any_of(axes.begin(), axis, [&](const Axis& before) { return before.key == axis->key; }))
      throw InputError(
          fmt::format("--vary {0}: the key varies twice; give all its values at once, --vary {0}=A,B", axis->key));
    for (const std::string& override : overrides)
      if (override.substr(0, override.find('=')) == axis->key)
        throw InputError(fmt::format("--vary {}: --set gives the key a value too; keep one of the two", axis->key));
  }
}

const std::string kStopped = "not predicted: the sweep was stopped";

struct Row {
  std::vector<std::string> values;  // one per axis
  std::string problem;              // why there is no prediction; empty: there is
  bool fits = true;
  double step_seconds = 0, tokens_per_second = 0, model_flops_per_second = 0;
  ErrorRange error;  // of the prediction
  double busy = 0;   // share of the step in which compute is
  std::string binding, plan;
  DriveUse drive;
  ArenaBytes arenas;
};

/// The cartesian product; the last axis runs fastest.
std::vector<Row> all_rows(const std::vector<Axis>& axes) {
  std::size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();
    if (count > kMostRows) throw InputError(fmt::format("--vary: more than {} combinations", kMostRows));
  }
  std::vector<Row> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    rows[i].values.resize(axes.size());
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      rows[i].values[axis] = axes[axis].values[rest % axes[axis].values.size()];
      rest /= axes[axis].values.size();
    }
  }
  return rows;
}

void predict(const Scenario& scenario, Row& row) {
  const PolicyInput input = scenario.policy_input();
  row.arenas = arena_bytes(input);
  if (!fits(row.arenas, input)) {
    row.fits = false;
    row.problem = fmt::format("does not fit: {}", shortage_text(row.arenas, scenario.machine));
    return;
  }
  const Schedule schedule = make_schedule(input);
  row.drive = drive_use(schedule);
  const Prediction prediction = simulate(schedule, scenario.machine, {64, false, false});
  row.step_seconds = prediction.step_seconds;
  row.tokens_per_second = prediction.tokens_per_second;
  row.error = step_error_range(scenario.machine);
  row.model_flops_per_second = prediction.model_flops / prediction.step_seconds;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane)
    if (schedule.lanes[lane].name == "compute") row.busy = prediction.lane_busy_seconds[lane] / prediction.step_seconds;
  row.binding = prediction.bounds.binding;
}

void evaluate(const SweepOptions& options, const std::vector<Axis>& axes, Row& row) {
  ScenarioChoice choice = options.scenario;
  for (std::size_t i = 0; i < axes.size(); ++i)
    choice.overrides.push_back(fmt::format("{}={}", axes[i].key, row.values[i]));
  Scenario scenario = load_scenario_quietly(choice);
  if (options.search) {
    SearchOptions search_options;
    search_options.threads = 1;
    search_options.front = false;
    const SearchResult result = search_or_least(scenario, default_space(scenario), search_options);
    if (result.best.empty()) {
      row.fits = false;
      row.arenas = result.shortage.arenas;
      row.problem = fmt::format("does not fit: {}", shortage_text(row.arenas, scenario.machine));
      return;
    }
    set_plan(result.best.front().candidate, scenario);
    row.plan = candidate_text(result.best.front().candidate);
  } else {
    SearchOptions planning;
    planning.threads = 1;
    const Decision decision = decide(scenario, planning);
    apply(decision, scenario);
    row.plan = decision_text(decision);
  }
  predict(scenario, row);
}

/// Values of --vary are read as those of --set are, and errors say where they stand.
std::string said_of_vary(std::string problem) {
  constexpr std::string_view kSet = "--set ";
  if (problem.starts_with(kSet)) problem.replace(0, kSet.size(), "--vary ");
  return problem;
}

std::vector<std::string> cells(const Row& row, bool units) {
  std::vector<std::string> result = row.values;
  if (!row.problem.empty()) {
    result.insert(result.end(), kColumns - 1, "");
    result.push_back(row.problem);
    return result;
  }
  const auto size = [&](std::int64_t bytes) {
    return units ? format_bytes_gib(static_cast<double>(bytes)) : fmt::format("{}", bytes);
  };
  result.push_back(units ? format_seconds(row.step_seconds) : fmt::format("{:.9g}", row.step_seconds));
  result.push_back(units ? fmt::format("{:.1f}", row.tokens_per_second) : fmt::format("{:.9g}", row.tokens_per_second));
  result.push_back(units ? rate_range_text(row.tokens_per_second, row.error)
                         : fmt::format("{:.6g}", step_error_share(row.error)));
  result.push_back(units ? format_flops(row.model_flops_per_second)
                         : fmt::format("{:.9g}", row.model_flops_per_second));
  result.push_back(units ? fmt::format("{:.1f} %", 100 * row.busy) : fmt::format("{:.6g}", row.busy));
  result.push_back(row.binding);
  result.push_back(size(row.arenas.hbm));
  result.push_back(size(row.arenas.dram));
  const std::string written =
      row.drive.kept.empty()
          ? ""
          : fmt::format("NVMe: {:.3g} TB written a day", written_bytes_per_day(row.drive, row.step_seconds) * 1e-12);
  result.push_back(row.plan + (row.plan.empty() || written.empty() ? "" : "; ") + written);
  return result;
}

std::string markdown(const std::vector<Axis>& axes, const std::vector<Row>& rows) {
  std::string head, line;
  for (const Axis& axis : axes) head += fmt::format("| {} ", axis.key);
  head += "| step | tokens/s | range | model FLOP/s | compute busy | binding | HBM | DRAM | remarks |\n";
  for (std::size_t i = 0; i < axes.size() + kColumns; ++i) line += "|---";
  std::string text = head + line + "|\n";
  for (const Row& row : rows) {
    for (const std::string& cell : cells(row, true)) text += fmt::format("| {} ", cell);
    text += "|\n";
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return fmt::format("\"{}\"", quoted);
}

std::string csv(const std::vector<Axis>& axes, const std::vector<Row>& rows) {
  std::string text;
  for (const Axis& axis : axes) text += fmt::format("{},", csv_cell(axis.key));
  text +=
      "step_seconds,tokens_per_second,error_share,model_flops_per_second,compute_busy_share,binding,hbm_bytes,"
      "dram_bytes,remarks\n";
  for (const Row& row : rows) {
    const char* comma = "";
    for (const std::string& cell : cells(row, false)) {
      text += fmt::format("{}{}", comma, csv_cell(cell));
      comma = ",";
    }
    text += "\n";
  }
  return text;
}

ordered_json json(const std::vector<Axis>& axes, const std::vector<Row>& rows) {
  ordered_json list = ordered_json::array();
  for (const Row& row : rows) {
    ordered_json entry = ordered_json::object();
    for (std::size_t i = 0; i < axes.size(); ++i) entry["varied"][axes[i].key] = row.values[i];
    entry["fits"] = row.fits;
    if (!row.problem.empty()) {
      entry["problem"] = row.problem;
    } else {
      entry["step_seconds"] = row.step_seconds;
      entry["error_share"] = step_error_share(row.error);
      entry["error_range"] = error_json(row.error);
      entry["step_seconds_range"] = range_json(step_range(row.step_seconds, row.error));
      entry["tokens_per_second"] = row.tokens_per_second;
      entry["tokens_per_second_range"] = range_json(rate_range(row.tokens_per_second, row.error));
      entry["model_flops_per_second"] = row.model_flops_per_second;
      entry["compute_busy_share"] = row.busy;
      entry["binding"] = row.binding;
      if (!row.plan.empty()) entry["plan"] = row.plan;
      entry["executable"] = true;
      if (!row.drive.kept.empty()) entry["nvme_written_bytes_per_step"] = row.drive.written_bytes;
    }
    entry["hbm_bytes"] = row.arenas.hbm;
    entry["dram_bytes"] = row.arenas.dram;
    list.push_back(entry);
  }
  return {{"format", "penstock-sweep/1"}, {"rows", list}};
}

/// --html must not replace what any row reads: the scenario's files and those of each value, tried by itself.
void check_outputs(const SweepOptions& options, const Scenario& scenario, const std::vector<Axis>& axes) {
  if (options.html.empty()) return;
  CommandFiles files;
  files.reads(scenario.files);
  for (const Axis& axis : axes)
    for (const std::string& value : axis.values) {
      ScenarioChoice choice = options.scenario;
      choice.overrides.push_back(fmt::format("{}={}", axis.key, value));
      try {
        files.reads(load_scenario_quietly(choice).files);
      } catch (const InputError&) {  // its rows will say so
      }
    }
  files.writes(options.html, "--html");
  files.check();
}

}  // namespace

int sweep(const SweepOptions& options) {
  const Scenario scenario = load_scenario(options.scenario);  // its own errors are not those of a row
  std::vector<Axis> axes;
  for (const std::string& text : options.vary) axes.push_back(parse_axis(text));
  refuse_repeated(axes, options.scenario.overrides);
  check_outputs(options, scenario, axes);
  std::vector<Row> rows = all_rows(axes);
  {
    StatusLine status(fmt::format("predicting {} rows", rows.size()));
    const GentleStop stop("the rows under way are finished, and what there is of the table follows");
    std::atomic<std::size_t> done = 0;
    parallel_for(rows.size(), thread_count(options.threads), [&](std::size_t i, std::size_t) {
      if (stop.asked()) {
        rows[i].problem = kStopped;
        return;
      }
      try {
        evaluate(options, axes, rows[i]);
      } catch (const InputError& error) {
        rows[i].problem = said_of_vary(error.what());
      }
      status.update(fmt::format("predicting {} rows: {} done", rows.size(), ++done));
    });
  }
  const auto stopped = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.problem == kStopped; });
  if (stopped == std::ssize(rows)) throw std::runtime_error("the sweep was stopped before it predicted anything");
  // A wish that no row understands is a mistake in the wish.
  const auto is_bad = [](const Row& row) { return row.fits && !row.problem.empty(); };
  if (stopped == 0 && std::all_of(rows.begin(), rows.end(), is_bad)) throw InputError(rows.front().problem);
  if (!options.html.empty()) write_text_file(options.html, sweep_page(scenario.name, json(axes, rows)));
  if (options.json || options.format == "json")
    fmt::print("{}", json_text(json(axes, rows)));
  else
    fmt::print("{}", options.format == "csv" ? csv(axes, rows) : markdown(axes, rows));
  return kExitDone;
}

}  // namespace penstock::sim
