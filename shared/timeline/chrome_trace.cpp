#include "shared/timeline/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "shared/files.h"
#include "shared/ir/schedule_names.h"
#include "shared/timeline/history.h"
#include "shared/timeline/memory_curve.h"

namespace penstock {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// An op waited for its binding predecessor if it started within this time of its end: signalling takes microseconds.
constexpr double kWaitedWithinSeconds = 50e-6;
constexpr std::size_t kCounterPoints = 20'000;  // per tier and timeline

/// A moment on the trace's grid.
std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

struct Slice {
  std::int64_t begin = 0, end = 0;
};

/// One per row of the timeline; those of a lane one after the other.
std::vector<Slice> slices_of(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Slice> slices;
  std::vector<std::int64_t> lane_end(schedule.lanes.size(), std::numeric_limits<std::int64_t>::min());
  for (const OpTime& time : timeline.ops) {
    if (static_cast<std::size_t>(time.op) >= schedule.ops.size()) {
      slices.emplace_back();
      continue;
    }
    std::int64_t& free = lane_end[static_cast<std::size_t>(schedule.ops[time.op].lane)];
    const std::int64_t begin = std::max(nanoseconds(time.start), free);
    free = std::max(nanoseconds(time.end), begin);
    slices.push_back({begin, free});
  }
  return slices;
}

/// Every step has every op, row step * ops + op.
bool is_complete(const Schedule& schedule, const Timeline& timeline) {
  const std::size_t ops = schedule.ops.size();
  if (timeline.ops.size() != ops * static_cast<std::size_t>(timeline.steps)) return false;
  for (std::size_t row = 0; row < timeline.ops.size(); ++row)
    if (timeline.ops[row].op != static_cast<int>(row % ops)) return false;
  return true;
}

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[] = {"forward", "loss", "backward", "optimizer"};
  return kNames[static_cast<int>(phase)];
}

/// The events of one process.
class ProcessWriter {
 public:
  /// `arrows` numbers those of all processes.
  ProcessWriter(fmt::memory_buffer& text, const TracedTimeline& traced, int process, int& arrows)
      : text_(text), schedule_(*traced.schedule), timeline_(*traced.timeline), process_(process), arrows_(arrows) {
    for (const Op& op : schedule_.ops) names_.push_back(quoted(op.name));
  }

  void write() {
    write_names();
    const History history(schedule_, timeline_);
    const std::vector<Slice> slices = slices_of(schedule_, timeline_);
    for (std::size_t row = 0; row < slices.size(); ++row) {
      const OpTime& time = timeline_.ops[row];
      if (static_cast<std::size_t>(time.op) >= schedule_.ops.size()) continue;
      write_slice(time, slices[row]);
      write_arrow(history, slices, row);
    }
    // Of an op that was not recorded nobody knows how long its bytes live.
    if (is_complete(schedule_, timeline_)) write_counters();
  }

 private:
  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  /// Starts an event.
  void next() {
    append("{}\n", process_ > 1 || started_ ? "," : "");
    started_ = true;
  }

  void write_names() {
    const char* source = timeline_.source == TimelineSource::predicted ? "predicted" : "measured";
    next();
    append("{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"tid\": 0, \"args\": {{\"name\": {}}}}}",
           process_,
           quoted(fmt::format("{}: {} on {}{}", source, timeline_.scenario, timeline_.machine,
                              schedule_.policy.empty() ? "" : ", " + schedule_.policy)));
    next();
    append(
        "{{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": {}, \"tid\": 0, \"args\": {{\"sort_index\": "
        "{}}}}}",
        process_, process_);
    for (std::size_t lane = 0; lane < schedule_.lanes.size(); ++lane) {
      next();
      append("{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
             process_, lane + 1, quoted(schedule_.lanes[lane].name));
      next();
      append(
          "{{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": {}, \"tid\": {}, \"args\": {{\"sort_index\": "
          "{}}}}}",
          process_, lane + 1, lane + 1);
    }
  }

  void write_counters() {
    const std::vector<std::vector<MemoryPoint>> curves = memory_curves(schedule_, timeline_);
    for (std::size_t i = 0; i < curves.size(); ++i) {
      const Tier& tier = schedule_.tiers[i];
      const std::string name =
          quoted(fmt::format("{} {} live bytes", tier_names()[static_cast<std::size_t>(tier.kind)], tier.device));
      for (const MemoryPoint& point : thinned(curves[i], kCounterPoints)) {
        next();
        append("{{\"ph\": \"C\", \"name\": {}, \"pid\": {}, \"ts\": {:.3f}, \"args\": {{\"bytes\": {:.0f}}}}}", name,
               process_, microseconds(nanoseconds(point.seconds)), point.bytes);
      }
    }
  }

  void write_slice(const OpTime& time, const Slice& slice) {
    const Op& op = schedule_.ops[time.op];
    next();
    append(
        "{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
        "\"args\": {{\"step\": {}, \"op\": {}, \"layer\": {}, \"micro_batch\": {}}}}}",
        names_[time.op], phase_name(op.phase), process_, op.lane + 1, microseconds(slice.begin),
        microseconds(slice.end - slice.begin), time.step, time.op, op.layer, op.micro_batch);
  }

  /// From the op on another lane that this one waited for, if it did.
  void write_arrow(const History& history, const std::vector<Slice>& slices, std::size_t row) {
    const OpTime& time = timeline_.ops[row];
    const Instance binding = history.binding({time.step, time.op});
    const OpTime* from = history.find(binding);
    if (from == nullptr || time.start - from->end > kWaitedWithinSeconds) return;
    const int lane = schedule_.ops[binding.op].lane;
    if (lane == schedule_.ops[time.op].lane) return;
    ++arrows_;
    // An arrow starts inside its slice: a nanosecond before its end.
    const Slice& source = slices[static_cast<std::size_t>(from - timeline_.ops.data())];
    const std::int64_t tail = std::max(source.begin, source.end - 1);
    next();
    append(
        "{{\"ph\": \"s\", \"name\": \"waited\", \"cat\": \"waited\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": "
        "{:.3f}}}",
        arrows_, process_, lane + 1, microseconds(tail));
    next();
    append(
        "{{\"ph\": \"f\", \"bp\": \"e\", \"name\": \"waited\", \"cat\": \"waited\", \"id\": {}, \"pid\": {}, \"tid\": "
        "{}, "
        "\"ts\": {:.3f}}}",
        arrows_, process_, schedule_.ops[time.op].lane + 1, microseconds(std::max(slices[row].begin, tail)));
  }

  fmt::memory_buffer& text_;
  const Schedule& schedule_;
  const Timeline& timeline_;
  const int process_;  // from 1
  int& arrows_;
  std::vector<std::string> names_;
  bool started_ = false;
};

}  // namespace

void write_chrome_trace(const std::vector<TracedTimeline>& timelines, const std::filesystem::path& path) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  int process = 0, arrows = 0;
  for (const TracedTimeline& traced : timelines) ProcessWriter(text, traced, ++process, arrows).write();
  fmt::format_to(std::back_inserter(text), "\n]}}\n");
  write_text_file(path, {text.data(), text.size()});
}

}  // namespace penstock
