#include "shared/timeline/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shared/files.h"
#include "shared/timeline/history.h"

namespace penstock {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// An op waited for its binding predecessor if it started within this time of its end: signalling takes microseconds.
constexpr double kWaitedWithinSeconds = 50e-6;
constexpr double kMicroseconds = 1e6;

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[] = {"forward", "loss", "backward", "optimizer"};
  return kNames[static_cast<int>(phase)];
}

class TraceWriter {
 public:
  explicit TraceWriter(const Schedule& schedule) : schedule_(schedule) {
    for (const Op& op : schedule.ops) names_.push_back(quoted(op.name));
    append("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  }

  void add(const Timeline& timeline, int process) {
    write_names(timeline, process);
    const History history(schedule_, timeline);
    for (const OpTime& time : timeline.ops) {
      if (static_cast<std::size_t>(time.op) >= schedule_.ops.size()) continue;
      write_slice(time, process);
      write_arrow(history, time, process);
    }
  }

  std::string_view finish() {
    append("\n]}}\n");
    return {text_.data(), text_.size()};
  }

 private:
  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  /// Starts an event.
  void next() {
    append("{}\n", separator_);
    separator_ = ",";
  }

  void write_names(const Timeline& timeline, int process) {
    const char* source = timeline.source == TimelineSource::predicted ? "predicted" : "measured";
    next();
    append("{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"tid\": 0, \"args\": {{\"name\": {}}}}}",
           process, quoted(fmt::format("{}: {} on {}", source, timeline.scenario, timeline.machine)));
    next();
    append(
        "{{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": {}, \"tid\": 0, \"args\": {{\"sort_index\": "
        "{}}}}}",
        process, process);
    for (std::size_t lane = 0; lane < schedule_.lanes.size(); ++lane) {
      next();
      append("{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
             process, lane + 1, quoted(schedule_.lanes[lane].name));
      next();
      append(
          "{{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": {}, \"tid\": {}, \"args\": {{\"sort_index\": "
          "{}}}}}",
          process, lane + 1, lane + 1);
    }
  }

  void write_slice(const OpTime& time, int process) {
    const Op& op = schedule_.ops[time.op];
    next();
    append(
        "{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": {:.4f}, \"dur\": {:.4f}, "
        "\"args\": {{\"step\": {}, \"op\": {}, \"layer\": {}, \"micro_batch\": {}}}}}",
        names_[time.op], phase_name(op.phase), process, op.lane + 1, time.start * kMicroseconds,
        (time.end - time.start) * kMicroseconds, time.step, time.op, op.layer, op.micro_batch);
  }

  /// From the op on another lane that this one waited for, if it did.
  void write_arrow(const History& history, const OpTime& time, int process) {
    const Instance binding = history.binding({time.step, time.op});
    const OpTime* from = history.find(binding);
    if (from == nullptr || time.start - from->end > kWaitedWithinSeconds) return;
    const int lane = schedule_.ops[binding.op].lane;
    if (lane == schedule_.ops[time.op].lane) return;
    ++arrows_;
    // An arrow starts inside its slice: a nanosecond before its end, or half way if it is shorter.
    const double tail = from->end - std::min(1e-9, (from->end - from->start) / 2);
    next();
    append(
        "{{\"ph\": \"s\", \"name\": \"waited\", \"cat\": \"waited\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": "
        "{:.4f}}}",
        arrows_, process, lane + 1, tail * kMicroseconds);
    next();
    append(
        "{{\"ph\": \"f\", \"bp\": \"e\", \"name\": \"waited\", \"cat\": \"waited\", \"id\": {}, \"pid\": {}, \"tid\": "
        "{}, "
        "\"ts\": {:.4f}}}",
        arrows_, process, schedule_.ops[time.op].lane + 1, std::max(time.start, tail) * kMicroseconds);
  }

  const Schedule& schedule_;
  std::vector<std::string> names_;
  fmt::memory_buffer text_;
  const char* separator_ = "";
  int arrows_ = 0;
};

}  // namespace

void write_chrome_trace(const Schedule& schedule, const std::vector<const Timeline*>& timelines,
                        const std::filesystem::path& path) {
  TraceWriter writer(schedule);
  int process = 0;
  for (const Timeline* timeline : timelines) writer.add(*timeline, ++process);
  write_text_file(path, writer.finish());
}

}  // namespace penstock
