#include "shared/compare/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>
#include <sstream>
#include <system_error>

#include "shared/catalogue.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/json_reader.h"
#include "shared/json_rows.h"
#include "shared/median.h"
#include "shared/scenario/moved_keys.h"
#include "shared/scenario/policy_toml.h"
#include "shared/toml_reader.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormats[] = {"penstock-recording/1"};
constexpr std::int64_t kMaxBytes = 64 << 20;
constexpr std::size_t kMaxOps = 10'000'000;
constexpr double kMaxSeconds = 1e9;
constexpr std::int64_t kMaxOpNanoseconds = 1'000'000'000'000'000;  // of one op; as seconds and back they stay the same

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::vector<double> op_medians(const Schedule& schedule, const Timeline& timeline) {
  std::vector<std::vector<double>> durations(schedule.ops.size());
  for (const OpTime& time : timeline.ops)
    if (time.step >= timeline.first_step + timeline.warmup_steps && time.op < static_cast<int>(durations.size()))
      durations[static_cast<std::size_t>(time.op)].push_back(time.end - time.start);
  std::vector<double> medians;
  medians.reserve(durations.size());
  for (std::vector<double>& seconds : durations) medians.push_back(median(seconds));
  return medians;
}

/// The machine is the profile's, with the capacities that the run had; every parameter of the policy is written out, so
/// that a preset may change later, and of a file of tokens what it says of the rows.
std::vector<std::string> kept_overrides(const std::vector<std::string>& overrides, const Scenario& scenario) {
  std::vector<std::string> kept;
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    if (const std::vector<std::string> names = moved_names(key); !names.empty()) {
      for (const std::string& name : names) kept.push_back(name + text.substr(key.size()));
      continue;
    }
    const bool replaced = key == "workload.data" || key == "workload.squared_lengths" || key == "machine.profile" ||
                          key == "machine.hardware" || key == "machine.card" || key == "machine.host" ||
                          key == "machine.hbm" || key == "machine.dram" || key == "machine.context" ||
                          key == "machine.reserve" || key == "machine.pinned" || key.starts_with("policy.");
    if (!replaced) kept.push_back(text);
  }
  std::istringstream lines(policy_text(scenario.policy));
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.find(" = "); equals != std::string::npos)
      kept.push_back("policy." + line.substr(0, equals) + "=" + line.substr(equals + 3));
  const Machine& machine = scenario.machine;
  kept.push_back(fmt::format("machine.hbm={} B", machine.gpu.hbm_bytes));
  kept.push_back(fmt::format("machine.context={} B", context_bytes(machine)));
  kept.push_back(fmt::format("machine.dram={} B", machine.dram_bytes));
  kept.push_back(fmt::format("machine.reserve={} B", reserve_bytes(machine)));
  if (machine.pinned_bytes) kept.push_back(fmt::format("machine.pinned={} B", *machine.pinned_bytes));
  if (scenario.rows == BatchKind::packed)  // in the place of a file that is not kept
    kept.push_back(fmt::format("workload.squared_lengths={}", scenario.squared_lengths));
  return kept;
}

std::vector<TierPeak> read_peaks(JsonObject object) {
  std::vector<TierPeak> peaks;
  for (std::size_t i = 0; i < tier_names().size(); ++i) {
    const std::string tier(tier_names()[i]);
    if (object.has(tier.c_str()))
      peaks.push_back({static_cast<TierKind>(i), object.integer(tier.c_str(), 0, INT64_MAX)});
  }
  object.finish();
  return peaks;
}

/// The one long list of a recording.
struct Nanoseconds {
  explicit Nanoseconds(JsonInput& input) : room(input, kMaxOps) {}

  void add(JsonValue value, const std::string& place) {
    const auto whole = value.integer(0, kMaxOpNanoseconds);
    if (!whole)
      throw InputError(fmt::format("{}.op_nanoseconds: expected whole nanoseconds up to {}, found {}", place,
                                   kMaxOpNanoseconds, shown(value.tree())));
    room.make(seconds);
    seconds.push_back(static_cast<double>(*whole) * 1e-9);
  }

  JsonRoom room;
  std::vector<double> seconds;
};

std::vector<std::string> read_texts(JsonObject& object, const char* key) {
  std::vector<std::string> texts;
  for (const json& value : object.array(key)) {
    if (!value.is_string()) object.fail(key, fmt::format("expected texts \"key=value\", found {}", shown(value)));
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

/// What the scenario calls its model: `--set model.config=...`, else the file's.
std::string model_name(const Recording& recording, const std::string& place) {
  std::optional<std::string> name;
  const TomlDocument document = parse_toml(recording.text, place);
  if (const auto table = document.tables.find("model"); table != document.tables.end())
    if (const auto value = table->second.values.find("config"); value != table->second.values.end())
      if (const auto* text = std::get_if<std::string>(&value->second.value)) name = *text;
  constexpr std::string_view kKey = "model.config=";
  for (const std::string& text : recording.overrides)
    if (text.starts_with(kKey))
      if (const TomlValue value = parse_toml_value(text.substr(kKey.size()), place);
          const auto* override_text = std::get_if<std::string>(&value.value))
        name = *override_text;
  if (!name) throw InputError(fmt::format("{}: the scenario names no model ([model] config)", place));
  return *name;
}

/// Where a scenario would have to lie to name its model so: beside the recording or in a folder above; the recording's
/// own for a model of the catalogue.
fs::path folder_with(const fs::path& name, const fs::path& file) {
  std::error_code ignored;
  const fs::path beside = fs::absolute(file).parent_path();
  for (fs::path folder = beside;; folder = folder.parent_path()) {
    if (fs::is_regular_file(folder / name, ignored)) return folder;
    if (folder == folder.root_path()) break;
  }
  if (in_catalogue(CatalogueKind::model, name)) return beside;
  throw InputError(
      fmt::format("{}: the scenario's model {} is neither beside the recording nor in a folder above nor in the "
                  "catalogue; put it at {}",
                  file.string(), name.string(), (file.parent_path() / name).string()));
}

}  // namespace

void require_recordable(const Scenario& scenario, const fs::path& schedule_file) {
  if (!scenario.machine.measured)
    throw InputError(
        fmt::format("a recording is to be predicted later, which needs a profile of this machine, but {} "
                    "has a hardware file: measure one with `penstock-exec calibrate` and give it with "
                    "--profile",
                    scenario.path.string()));
  if (!schedule_file.empty())
    throw InputError(
        fmt::format("a recording keeps the scenario and not the schedule: leave --schedule {} away, and "
                    "say by --set what makes it",
                    schedule_file.string()));
  if (const RunOptions& run = scenario.run; run.steps < 2)
    throw InputError(
        fmt::format("a recording needs a steady step behind the first one, but run.steps is {}: raise it", run.steps));
}

Recording make_recording(const Scenario& scenario, const std::vector<std::string>& overrides, const Schedule& schedule,
                         const Timeline& measured, const std::string& commit, const fs::path& file) {
  Recording recording;
  recording.periods = static_cast<int>(step_periods(schedule, measured).size());
  if (recording.periods < 1)
    throw InputError(
        fmt::format("a recording needs a steady period, and there is none ({} steps, {} of them warm-up): "
                    "run more steps",
                    measured.steps, measured.warmup_steps));
  recording.text = scenario.text;
  recording.overrides = kept_overrides(overrides, scenario);
  recording.profile = fs::absolute(scenario.machine.source)
                          .lexically_normal()
                          .lexically_relative(fs::absolute(file).lexically_normal().parent_path());
  recording.machine = scenario.machine.name;
  recording.policy = schedule.policy;
  recording.schedule_hash = schedule_hash(schedule);
  recording.commit = commit;
  recording.date = now_utc();
  recording.step_seconds = steady_step_seconds(schedule, measured);
  recording.spread = step_spread(schedule, measured);
  const StallReport stalls = attribute_stalls(schedule, measured);
  recording.stall_seconds = stalls.total_seconds;
  recording.stall_by_cause = stalls.by_cause;
  recording.peaks = measured.peaks;
  recording.op_seconds = op_medians(schedule, measured);
  return recording;
}

Recording read_recording(const fs::path& file) {
  JsonInput input(file, kMaxBytes);
  Nanoseconds ops(input);
  const JsonList lists[] = {
      {"op_nanoseconds", kMaxOps, [&](JsonValue value, std::size_t) { ops.add(value, input.place()); }}};
  const json text = read_json_rows(input, lists);
  JsonObject object(text, file.string());
  object.choice("format", kFormats);
  Recording recording;
  recording.text = object.text("scenario");
  recording.overrides = read_texts(object, "overrides");
  recording.profile = object.text("profile");
  recording.machine = object.text("machine");
  recording.policy = object.text("policy");
  recording.schedule_hash = object.text("schedule");
  recording.commit = object.text("commit");
  recording.date = object.text("date");
  recording.step_seconds = object.number("step_seconds", 1e-9, kMaxSeconds);
  recording.spread = object.number("spread", 0, 1e6);
  recording.periods = static_cast<int>(object.integer("periods", 1, 1'000'000));
  recording.stall_seconds = object.number("stall_seconds", 0, kMaxSeconds);
  JsonObject causes = object.object("stall_seconds_by_cause");
  for (std::size_t i = 0; i < recording.stall_by_cause.size(); ++i)
    recording.stall_by_cause[i] = causes.number(stall_cause_name(static_cast<StallCause>(i)), 0, kMaxSeconds);
  causes.finish();
  recording.peaks = read_peaks(object.object("peak_bytes"));
  object.array("op_nanoseconds");
  object.finish();
  recording.op_seconds = std::move(ops.seconds);
  return recording;
}

void write_recording(const Recording& recording, const fs::path& file) {
  ordered_json causes = ordered_json::object(), peaks = ordered_json::object();
  for (std::size_t i = 0; i < recording.stall_by_cause.size(); ++i)
    causes[stall_cause_name(static_cast<StallCause>(i))] = recording.stall_by_cause[i];
  for (const TierPeak& peak : recording.peaks)
    peaks[std::string(tier_names()[static_cast<std::size_t>(peak.tier)])] = peak.bytes;
  ordered_json object = {{"format", kFormats[0]},
                         {"machine", recording.machine},
                         {"policy", recording.policy},
                         {"date", recording.date},
                         {"commit", recording.commit},
                         {"profile", recording.profile.generic_string()},
                         {"scenario", recording.text},
                         {"overrides", recording.overrides},
                         {"schedule", recording.schedule_hash},
                         {"step_seconds", recording.step_seconds},
                         {"spread", recording.spread},
                         {"periods", recording.periods},
                         {"stall_seconds", recording.stall_seconds},
                         {"stall_seconds_by_cause", causes},
                         {"peak_bytes", peaks}};
  // The list of ops stands on one line; everything else is for people too.
  std::string text = object.dump(1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2);
  text += ",\n \"op_nanoseconds\": [";
  for (std::size_t i = 0; i < recording.op_seconds.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", std::llround(recording.op_seconds[i] * 1e9));
  write_text_file(file, text + "]\n}\n");
}

Scenario recorded_scenario(const Recording& recording, const fs::path& file) {
  const std::string place = file.string() + ": scenario";
  const fs::path folder = folder_with(model_name(recording, place), file);
  std::vector<std::string> overrides = recording.overrides;
  const fs::path profile = (fs::absolute(file).parent_path() / recording.profile).lexically_normal();
  std::error_code ignored;
  if (!fs::is_regular_file(profile, ignored))
    throw InputError(
        fmt::format("{}: the profile {} is not there; it belongs to the recording", file.string(), profile.string()));
  overrides.push_back("machine.profile=" + toml_quoted(profile.string()));
  Scenario scenario = parse_scenario(recording.text, place, folder, overrides);
  scenario.path = file;
  scenario.name = file.stem().string();
  return scenario;
}

}  // namespace penstock
