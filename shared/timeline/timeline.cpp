#include "shared/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/json_reader.h"
#include "shared/json_rows.h"
#include "shared/median.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "penstock-timeline/1";
constexpr std::string_view kSources[] = {"predicted", "measured"};
constexpr std::string_view kTiers[] = {"hbm", "dram", "nvme"};
constexpr std::string_view kFormats[] = {kFormat};
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSteps = 1'000'000;
constexpr double kMaxSeconds = 1e9;

int last_op_where(const Schedule& schedule, auto matches) {
  for (auto op = schedule.ops.rbegin(); op != schedule.ops.rend(); ++op)
    if (matches(*op)) return op->id;
  return -1;
}

// --- reading ------------------------------------------------------------------------------------------------------

/// The long lists of a timeline, which is not held in memory as a whole.
class Rows {
 public:
  explicit Rows(JsonInput& input) : place_(input.place()), ops_room_(input, kMaxOps), losses_room_(input, kMaxSteps) {}

  json read(JsonInput& input) {
    const JsonList lists[] = {{"ops", kMaxOps, [&](JsonValue row, std::size_t i) { add_op(row, i); }},
                              {"losses", kMaxSteps, [&](JsonValue loss, std::size_t i) { add_loss(loss, i); }}};
    return read_json_rows(input, lists, [&](const json& top, const std::string& key) {
      if (key == "format") JsonObject(top, place_).choice("format", kFormats);  // before lists of another one are read
      if (key == "steps" || key == "first_step") learn_steps(top);
    });
  }

  /// Rows may stand before the keys that say which steps there are.
  void check_steps(const Timeline& timeline) const {
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (const int step = ops[i].step; step < timeline.first_step || step >= timeline.first_step + timeline.steps)
        fail("ops", i, "[0] (step)",
             fmt::format("expected a whole number from {} to {}, found {}", timeline.first_step,
                         timeline.first_step + timeline.steps - 1, step));
  }

  std::vector<OpTime> ops;
  std::vector<double> losses;

 private:
  static constexpr std::size_t kMaxOps = 100'000'000;  // 2 GB of them

  [[noreturn]] void fail(const char* list, std::size_t index, const char* part, const std::string& what) const {
    throw InputError(fmt::format("{}.{}[{}]{}: {}", place_, list, index, part, what));
  }

  void learn_steps(const json& top) {
    std::int64_t known[2];
    for (const auto& [key, number] : {std::pair{"first_step", &known[0]}, std::pair{"steps", &known[1]}}) {
      const auto found = top.find(key);
      if (found == top.end() || !found->is_number_unsigned()) return;
      *number = found->get<std::int64_t>();
      if (*number < 0 || *number > kMaxSteps) return;
    }
    first_ = known[0];
    last_ = known[0] + known[1] - 1;
  }

  void add_op(JsonValue row, std::size_t index) {
    if (!row.is_list() || row.size() != 4)
      fail("ops", index, "", fmt::format("expected [step, op, start, end], found {}", shown(row.tree())));
    const JsonValue step = row.begin(), op = step.next(), start = op.next(), end = start.next();
    const auto whole = [&](JsonValue value, std::int64_t low, std::int64_t high, const char* part) {
      if (const auto number = value.integer(low, high)) return static_cast<int>(*number);
      fail("ops", index, part,
           fmt::format("expected a whole number from {} to {}, found {}", low, high, shown(value.tree())));
    };
    const auto seconds = [&](JsonValue value, double low, const char* part) {
      if (const auto number = value.number(low, kMaxSeconds)) return *number;
      fail("ops", index, part,
           fmt::format("expected a number from {} to {}, found {}", low, kMaxSeconds, shown(value.tree())));
    };
    OpTime time;
    time.step = whole(step, first_, last_, "[0] (step)");
    time.op = whole(op, 0, std::numeric_limits<int>::max(), "[1] (op)");
    time.start = seconds(start, -kMaxSeconds, "[2] (start)");
    time.end = seconds(end, time.start, "[3] (end)");
    if (!ops.empty())
      if (const OpTime& before = ops.back(); std::pair(time.step, time.op) <= std::pair(before.step, before.op))
        fail("ops", index, "",
             fmt::format("step {}, op {} follows step {}, op {}, but rows ascend by step, then op", time.step, time.op,
                         before.step, before.op));
    ops_room_.make(ops);
    ops.push_back(time);
  }

  void add_loss(JsonValue loss, std::size_t index) {
    // A loss that is not a number has no JSON; it is written as null.
    const auto number = loss.is_null() ? std::nan("") : loss.number(-1e308, 1e308);
    if (!number)
      fail("losses", index, "",
           fmt::format("expected a number from {} to {}, found {}", -1e308, 1e308, shown(loss.tree())));
    losses_room_.make(losses);
    losses.push_back(*number);
  }

  std::string place_;
  JsonRoom ops_room_, losses_room_;
  std::int64_t first_ = 0, last_ = 2 * kMaxSteps;  // as far as they are known
};

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

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// Ends of `op` in the recorded steps from `first` on, step by step; steps where it is missing are left out.
std::vector<double> ends_of(const Timeline& timeline, int op, int first) {
  std::vector<double> ends;
  for (const OpTime& time : timeline.ops)
    if (time.op == op && time.step >= first) ends.push_back(time.end);
  return ends;
}

}  // namespace

int last_backward_op(const Schedule& schedule) {
  const auto on_compute = [&](const Op& op) { return schedule.lanes[op.lane].kind == LaneKind::gpu_compute; };
  const auto runs = [&](const Op& op, bool (*is_wanted)(Pass)) {
    const auto* work = std::get_if<TemplateWork>(&op.work);
    return work != nullptr && is_wanted(work->pass) && on_compute(op);
  };
  int op = last_op_where(schedule, [&](const Op& each) { return runs(each, is_backward); });
  if (op < 0) op = last_op_where(schedule, [&](const Op& each) { return runs(each, is_loss); });
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
  JsonInput input(path, kMaxBytes);
  Rows rows(input);
  const json head = rows.read(input);
  JsonObject file(head, path.string());
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
  for (const char* list : {"losses", "ops"}) file.array(list);
  file.finish();
  rows.check_steps(timeline);
  timeline.losses = std::move(rows.losses);
  timeline.ops = std::move(rows.ops);
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
