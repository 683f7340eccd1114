#include "shared/compare/memory_curve.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "shared/ir/segments.h"

namespace penstock {
namespace {

/// Bytes of a tier that live from the start of one op to the end of another of the same step.
struct Life {
  int tier = 0;
  int born = 0, last = 0;

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
    for (std::uint32_t at = 0; at < segments_.count(); ++at) end(at);
  }

  const std::map<Life, std::int64_t>& bytes() const { return bytes_; }
  std::int64_t standing(std::size_t tier) const { return standing_[tier]; }

 private:
  struct Now {
    int born = -1, last = -1;
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
        end(at);
        now.born = op;
      }
      if (now.born < 0) now.born = op;
      now.last = op;
    }
  }

  void end(std::uint32_t at) {
    const Now& now = now_[at];
    if (!now.stands && now.born >= 0) bytes_[{segments_.tier(at), now.born, now.last}] += segments_.bytes(at);
  }

  Segments segments_;
  std::vector<Now> now_;
  std::vector<std::int64_t> standing_;
  std::map<Life, std::int64_t> bytes_;
};

}  // namespace

std::vector<std::vector<MemoryPoint>> memory_curves(const Schedule& schedule, const Timeline& timeline) {
  const Lives lives(schedule);
  std::vector<std::vector<std::pair<double, std::int64_t>>> changes(schedule.tiers.size());
  for (int step = 0; step < timeline.steps; ++step) {
    const OpTime* times = &timeline.ops[static_cast<std::size_t>(step) * schedule.ops.size()];
    for (const auto& [life, bytes] : lives.bytes()) {
      auto& tier = changes[static_cast<std::size_t>(life.tier)];
      tier.emplace_back(times[life.born].start, bytes);
      tier.emplace_back(times[life.last].end, -bytes);
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
