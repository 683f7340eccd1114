#include "shared/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "penstock-timeline/1";
constexpr std::string_view kSources[] = {"predicted", "measured"};
constexpr std::string_view kTiers[] = {"hbm", "dram", "nvme"};
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSteps = 1'000'000;
constexpr double kMaxSeconds = 1e9;

int last_op_where(const Schedule& schedule, auto matches) {
  for (auto op = schedule.ops.rbegin(); op != schedule.ops.rend(); ++op)
    if (matches(*op)) return op->id;
  return -1;
}

// --- reading ------------------------------------------------------------------------------------------------------

double row_number(const json& value, double low, double high, const std::string& place) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(number) || number < low || number > high)
    throw InputError(fmt::format("{}: expected a number from {} to {}, found {}", place, low, high, shown(value)));
  return number;
}

int row_integer(const json& value, std::int64_t low, std::int64_t high, const std::string& place) {
  const double number = value.is_number_integer() ? value.get<double>() : std::nan("");
  if (!(number >= static_cast<double>(low)) || !(number <= static_cast<double>(high)))
    throw InputError(
        fmt::format("{}: expected a whole number from {} to {}, found {}", place, low, high, shown(value)));
  return static_cast<int>(number);
}

OpTime read_row(const json& row, const Timeline& timeline, const std::string& place) {
  if (!row.is_array() || row.size() != 4)
    throw InputError(fmt::format("{}: expected [step, op, start, end], found {}", place, shown(row)));
  OpTime time;
  time.step = row_integer(row[0], timeline.first_step, timeline.first_step + timeline.steps - 1, place + "[0] (step)");
  time.op = row_integer(row[1], 0, std::numeric_limits<int>::max(), place + "[1] (op)");
  time.start = row_number(row[2], -kMaxSeconds, kMaxSeconds, place + "[2] (start)");
  time.end = row_number(row[3], time.start, kMaxSeconds, place + "[3] (end)");
  return time;
}

std::vector<OpTime> read_ops(JsonObject& file, const Timeline& timeline) {
  const json& rows = file.array("ops");
  std::vector<OpTime> ops;
  ops.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", file.place("ops"), i);
    ops.push_back(read_row(rows[i], timeline, place));
    if (i == 0) continue;
    const OpTime &before = ops[i - 1], &now = ops[i];
    if (now.step < before.step || (now.step == before.step && now.op <= before.op))
      throw InputError(fmt::format("{}: step {}, op {} follows step {}, op {}, but rows ascend by step, then op", place,
                                   now.step, now.op, before.step, before.op));
  }
  return ops;
}

std::vector<TierPeak> read_peaks(JsonObject& file) {
  std::vector<TierPeak> peaks;
  const json& list = file.array("peaks");
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonObject entry(list[i], fmt::format("{}[{}]", file.place("peaks"), i));
    TierPeak peak;
    peak.tier = static_cast<TierKind>(entry.choice("tier", kTiers));
    peak.bytes = entry.integer("bytes", 0, std::numeric_limits<std::int64_t>::max());
    entry.finish();
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<double> read_losses(JsonObject& file) {
  std::vector<double> losses;
  const json& list = file.array("losses");
  for (std::size_t i = 0; i < list.size(); ++i) {
    // A loss that is not a number has no JSON; it is written as null.
    const std::string place = fmt::format("{}[{}]", file.place("losses"), i);
    losses.push_back(list[i].is_null() ? std::nan("") : row_number(list[i], -1e308, 1e308, place));
  }
  return losses;
}

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// Ends of `op` in the recorded steps from `first` on, step by step; steps where it is missing are left out.
std::vector<double> ends_of(const Timeline& timeline, int op, int first) {
  std::vector<double> ends;
  for (const OpTime& time : timeline.ops)
    if (time.op == op && time.step >= first) ends.push_back(time.end);
  return ends;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int last_backward_op(const Schedule& schedule) {
  const auto on_compute = [&](const Op& op) { return schedule.lanes[op.lane].kind == LaneKind::gpu_compute; };
  const auto runs = [&](const Op& op, Pass pass) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    return work != nullptr && work->pass == pass && on_compute(op);
  };
  int op = last_op_where(schedule, [&](const Op& each) { return runs(each, Pass::backward); });
  if (op < 0) op = last_op_where(schedule, [&](const Op& each) { return runs(each, Pass::loss); });
  if (op < 0) op = last_op_where(schedule, on_compute);
  return op < 0 ? static_cast<int>(schedule.ops.size()) - 1 : op;
}

std::vector<double> step_periods(const Schedule& schedule, const Timeline& timeline) {
  // The end of the last warm-up step is where the first steady period begins.
  const int first = timeline.first_step + std::max(0, timeline.warmup_steps - 1);
  const std::vector<double> ends = ends_of(timeline, last_backward_op(schedule), first);
  std::vector<double> periods;
  for (std::size_t i = 1; i < ends.size(); ++i) periods.push_back(ends[i] - ends[i - 1]);
  return periods;
}

double steady_step_seconds(const Schedule& schedule, const Timeline& timeline) {
  return median(step_periods(schedule, timeline));
}

double step_spread(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<double> periods = step_periods(schedule, timeline);
  const double middle = median(periods);
  if (periods.empty() || middle <= 0) return 0;
  const auto [low, high] = std::minmax_element(periods.begin(), periods.end());
  return (*high - *low) / middle;
}

Timeline read_timeline(const std::filesystem::path& path) {
  const json text = read_json_file(path, kMaxBytes);
  JsonObject file(text, path.string());
  static constexpr std::string_view kFormats[] = {kFormat};
  file.choice("format", kFormats);
  Timeline timeline;
  timeline.source = static_cast<TimelineSource>(file.choice("source", kSources));
  timeline.schedule_hash = file.text("schedule_hash");
  timeline.scenario = file.text("scenario");
  timeline.machine = file.text("machine");
  timeline.first_step = static_cast<int>(file.integer("first_step", 0, kMaxSteps));
  timeline.steps = static_cast<int>(file.integer("steps", 0, kMaxSteps));
  timeline.warmup_steps = static_cast<int>(file.integer("warmup_steps", 0, timeline.steps));
  timeline.peaks = read_peaks(file);
  timeline.losses = read_losses(file);
  timeline.ops = read_ops(file, timeline);
  file.finish();
  return timeline;
}

void write_timeline(const Timeline& timeline, const std::filesystem::path& path) {
  // Rows by hand: a timeline has hundreds of thousands of them. fmt writes the shortest text that reads back to the
  // same double.
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out, "{{\"format\": \"{}\",\n\"source\": \"{}\",\n\"schedule_hash\": {},\n\"scenario\": {},\n\"machine\": {},\n",
      kFormat, kSources[static_cast<int>(timeline.source)], quoted(timeline.schedule_hash), quoted(timeline.scenario),
      quoted(timeline.machine));
  fmt::format_to(out, "\"first_step\": {}, \"steps\": {}, \"warmup_steps\": {},\n\"peaks\": [", timeline.first_step,
                 timeline.steps, timeline.warmup_steps);
  const char* separator = "";
  for (const TierPeak& peak : timeline.peaks) {
    fmt::format_to(out, "{}{{\"tier\": \"{}\", \"bytes\": {}}}", separator, kTiers[static_cast<int>(peak.tier)],
                   peak.bytes);
    separator = ", ";
  }
  fmt::format_to(out, "],\n\"losses\": [");
  separator = "";
  for (const double loss : timeline.losses) {
    if (std::isfinite(loss)) {
      fmt::format_to(out, "{}{}", separator, loss);
    } else {
      fmt::format_to(out, "{}null", separator);
    }
    separator = ", ";
  }
  fmt::format_to(out, "],\n\"ops\": [\n");
  separator = "";
  for (const OpTime& time : timeline.ops) {
    fmt::format_to(out, "{}[{}, {}, {}, {}]", separator, time.step, time.op, time.start, time.end);
    separator = ",\n";
  }
  fmt::format_to(out, "\n]}}\n");
  write_text_file(path, std::string_view(text.data(), text.size()));
}

}  // namespace penstock
