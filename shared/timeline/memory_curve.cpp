#include "shared/timeline/memory_curve.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "shared/ir/segments.h"

namespace penstock {
namespace {

/// Bytes of a tier that live from the start of one op to the end of another of the same step, and the op that writes
/// them anew: of this step, or of the next one.
struct Life {
  int tier = 0;
  int born = 0, last = 0;
  int next = 0;
  bool next_in_step = false;

  auto operator<=>(const Life&) const = default;
};

class Lives {
 public:
  explicit Lives(const Schedule& schedule) : segments_(schedule), now_(segments_.count()) {
    standing_.resize(schedule.tiers.size());
    for (std::size_t i = 0; i < schedule.initial.size(); ++i)
      for (std::uint32_t at = segments_.initial(i).first; at < segments_.initial(i).last; ++at) stand(at);
    for (const Op& op : schedule.ops) {
      for (std::size_t i = 0; i < op.reads.size(); ++i) touch(op.id, segments_.read(op.id, i), true);
      for (std::size_t i = 0; i < op.writes.size(); ++i) touch(op.id, segments_.write(op.id, i), false);
    }
    for (std::uint32_t at = 0; at < segments_.count(); ++at) end(at, now_[at].first, false);
  }

  const std::map<Life, std::int64_t>& bytes() const { return bytes_; }
  std::int64_t standing(std::size_t tier) const { return standing_[tier]; }

 private:
  struct Now {
    int first = -1, born = -1, last = -1;
    bool stands = false;
  };

  void stand(std::uint32_t at) {
    if (!now_[at].stands) standing_[static_cast<std::size_t>(segments_.tier(at))] += segments_.bytes(at);
    now_[at].stands = true;
  }

  void touch(int op, SegmentRange range, bool reads) {
    for (std::uint32_t at = range.first; at < range.last; ++at) {
      Now& now = now_[at];
      if (!reads && now.last != op) {  // written without being read by the same op: another life begins
        end(at, op, true);
        now.born = op;
      }
      if (now.born < 0) now.born = op;
      if (now.first < 0) now.first = op;
      now.last = op;
    }
  }

  void end(std::uint32_t at, int next, bool in_step) {
    const Now& now = now_[at];
    if (!now.stands && now.born >= 0)
      bytes_[{segments_.tier(at), now.born, now.last, next, in_step}] += segments_.bytes(at);
  }

  Segments segments_;
  std::vector<Now> now_;
  std::vector<std::int64_t> standing_;
  std::map<Life, std::int64_t> bytes_;
};

/// The part between two moments; its first point says what was live at `begin`.
std::vector<MemoryPoint> within(const std::vector<MemoryPoint>& curve, double begin, double end) {
  std::vector<MemoryPoint> part{{begin, curve.front().bytes}};
  for (const MemoryPoint& point : curve)
    if (point.seconds <= begin)
      part.front().bytes = point.bytes;
    else if (point.seconds < end)
      part.push_back(point);
  return part;
}

struct Interval {
  double begin = 0, end = 0;
};

/// When ops of each phase run between two moments: ascending, without overlaps.
std::array<std::vector<Interval>, 4> phase_intervals(const Schedule& schedule, const Timeline& timeline, double begin,
                                                     double end) {
  std::array<std::vector<Interval>, 4> phases;
  for (const OpTime& time : timeline.ops)
    if (time.end > begin && time.start < end)
      phases[static_cast<std::size_t>(schedule.ops[static_cast<std::size_t>(time.op)].phase)].push_back(
          {std::max(time.start, begin), std::min(time.end, end)});
  for (std::vector<Interval>& intervals : phases) {
    std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::vector<Interval> joined;
    for (const Interval& interval : intervals)
      if (!joined.empty() && interval.begin <= joined.back().end)
        joined.back().end = std::max(joined.back().end, interval.end);
      else
        joined.push_back(interval);
    intervals = std::move(joined);
  }
  return phases;
}

/// The highest of the curve during any of the intervals; what ends at an interval's end does not count beyond it.
double highest(const std::vector<MemoryPoint>& curve, const std::vector<Interval>& intervals) {
  double bytes = 0;
  std::size_t at = 0;
  for (const Interval& interval : intervals) {
    while (at + 1 < curve.size() && curve[at + 1].seconds <= interval.begin) ++at;
    bytes = std::max(bytes, curve[at].bytes);
    while (at + 1 < curve.size() && curve[at + 1].seconds < interval.end) bytes = std::max(bytes, curve[++at].bytes);
  }
  return bytes;
}

}  // namespace

std::vector<std::vector<MemoryPoint>> memory_curves(const Schedule& schedule, const Timeline& timeline) {
  const Lives lives(schedule);
  std::vector<std::vector<std::pair<double, std::int64_t>>> changes(schedule.tiers.size());
  for (int step = 0; step < timeline.steps; ++step) {
    const OpTime* times = &timeline.ops[static_cast<std::size_t>(step) * schedule.ops.size()];
    for (const auto& [life, bytes] : lives.bytes()) {
      auto& tier = changes[static_cast<std::size_t>(life.tier)];
      const double begin = times[life.born].start;
      double end = times[life.last].end;
      // Clocks that disagree must not count a byte twice: a life ends where the next one begins, at the latest.
      if (life.next_in_step)
        end = std::min(end, times[life.next].start);
      else if (step + 1 < timeline.steps)
        end = std::min(end, times[schedule.ops.size() + static_cast<std::size_t>(life.next)].start);
      tier.emplace_back(begin, bytes);
      tier.emplace_back(std::max(begin, end), -bytes);
    }
  }
  std::vector<std::vector<MemoryPoint>> curves(schedule.tiers.size());
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::sort(changes[i].begin(), changes[i].end());
    std::int64_t live = lives.standing(i);
    const double begin = changes[i].empty() ? 0 : std::min(0.0, changes[i].front().first);
    curves[i].push_back({begin, static_cast<double>(live)});
    for (const auto& [seconds, bytes] : changes[i]) {
      live += bytes;
      if (curves[i].back().seconds != seconds) curves[i].push_back({seconds, 0});
      curves[i].back().bytes = static_cast<double>(live);  // what is left once all changes of this moment are made
    }
  }
  return curves;
}

std::vector<LiveMemory> live_memory(const Schedule& schedule, const Timeline& timeline, double begin, double end) {
  const auto phases = phase_intervals(schedule, timeline, begin, end);
  std::vector<LiveMemory> tiers;
  for (const std::vector<MemoryPoint>& curve : memory_curves(schedule, timeline)) {
    LiveMemory live{within(curve, begin, end), 0, 0, {}};
    const auto peak = std::max_element(live.curve.begin(), live.curve.end(),
                                       [](const MemoryPoint& a, const MemoryPoint& b) { return a.bytes < b.bytes; });
    live.peak_bytes = peak->bytes;
    live.peak_seconds = peak->seconds;
    for (std::size_t phase = 0; phase < phases.size(); ++phase)
      live.phase_bytes[phase] = highest(live.curve, phases[phase]);
    tiers.push_back(std::move(live));
  }
  return tiers;
}

std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, std::size_t most) {
  if (curve.size() <= most || most == 0) return curve;
  const double begin = curve.front().seconds, slice = (curve.back().seconds - begin) / static_cast<double>(most);
  if (!(slice > 0)) return {curve.front()};
  std::vector<MemoryPoint> result;
  std::size_t filled = most;  // no slice yet
  for (const MemoryPoint& point : curve) {
    const auto at = std::min(static_cast<std::size_t>((point.seconds - begin) / slice), most - 1);
    if (at != filled) result.push_back({begin + static_cast<double>(at) * slice, point.bytes});
    result.back().bytes = std::max(result.back().bytes, point.bytes);
    filled = at;
  }
  return result;
}

}  // namespace penstock
