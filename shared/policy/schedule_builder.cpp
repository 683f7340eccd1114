#include "shared/policy/schedule_builder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "shared/error.h"
#include "shared/model/activations.h"

namespace penstock {
namespace {

// Ops are numbered through two unrolled steps: op `id` of step s is s * ops + id. Two steps are enough: every byte
// that a step touches, the next one touches in the same way, so that an ordering over two steps follows from two over
// one each.

/// What happened last to one range of bytes.
struct Segment {
  std::int64_t end = 0;
  int writer = -1;
  std::vector<std::pair<int, int>> readers;  // (lane, last reader on it) since the writer
};

/// The bytes of one buffer, cut at every boundary of an access so far.
class BufferHistory {
 public:
  /// Appends to `found` the ops that must have ended before this access, and remembers it.
  void access(std::int64_t begin, std::int64_t end, bool write, int op, int lane, std::vector<int>& found) {
    cut(begin);
    cut(end);
    std::int64_t at = begin;
    for (auto it = segments_.lower_bound(begin); at < end; ++it) {
      if (it == segments_.end() || it->first > at) {  // bytes that nobody touched yet
        const std::int64_t stop = it == segments_.end() ? end : std::min(end, it->first);
        it = segments_.emplace(at, Segment{stop, -1, {}}).first;
      }
      touch(it->second, write, op, lane, found);
      at = it->second.end;
    }
  }

 private:
  void cut(std::int64_t position) {
    auto it = segments_.upper_bound(position);
    if (it == segments_.begin()) return;
    --it;
    if (it->first == position || it->second.end <= position) return;
    Segment rest = it->second;
    it->second.end = position;
    segments_.emplace(position, std::move(rest));
  }

  static void touch(Segment& segment, bool write, int op, int lane, std::vector<int>& found) {
    if (segment.writer >= 0) found.push_back(segment.writer);
    if (write) {
      for (const auto& [reader_lane, reader] : segment.readers) found.push_back(reader);
      segment.writer = op;
      segment.readers.clear();
      return;
    }
    for (auto& [reader_lane, reader] : segment.readers)
      if (reader_lane == lane) {
        reader = op;
        return;
      }
    segment.readers.emplace_back(lane, op);
  }

  std::map<std::int64_t, Segment> segments_;
};

class EdgeFinder {
 public:
  EdgeFinder(const Schedule& schedule, const std::vector<Edge>& wishes)
      : schedule_(schedule),
        ops_(static_cast<int>(schedule.ops.size())),
        lanes_(schedule.lanes.size()),
        histories_(schedule.buffers.size()),
        wishes_(schedule.ops.size()),
        within_(schedule.ops.size()),
        clocks_(2 * schedule.ops.size() * lanes_, -1),
        last_on_lane_(lanes_, -1) {
    for (const Edge& wish : wishes) wishes_[static_cast<std::size_t>(wish.to)].push_back(wish);
  }

  std::vector<Edge> run() {
    for (int step = 0; step < 2; ++step)
      for (int id = 0; id < ops_; ++id) visit(step, id);
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) {
      return std::tie(a.to, a.from, a.distance) < std::tie(b.to, b.from, b.distance);
    });
    return std::move(edges_);
  }

 private:
  /// clock(op)[lane]: the last op on that lane known to have ended before `op` starts.
  int* clock(int op) { return clocks_.data() + static_cast<std::size_t>(op) * lanes_; }
  int lane_of(int op) const { return schedule_.ops[static_cast<std::size_t>(op % ops_)].lane; }

  bool known(int op, int before) { return clock(op)[lane_of(before)] >= before; }

  void follow(int op, int before) {
    int* mine = clock(op);
    const int* theirs = clock(before);
    for (std::size_t lane = 0; lane < lanes_; ++lane) mine[lane] = std::max(mine[lane], theirs[lane]);
    mine[lane_of(before)] = std::max(mine[lane_of(before)], before);
  }

  void visit(int step, int id) {
    const Op& op = schedule_.ops[static_cast<std::size_t>(id)];
    const LaneKind kind = schedule_.lanes[static_cast<std::size_t>(op.lane)].kind;
    const int self = step * ops_ + id;
    if (const int before = last_on_lane_[static_cast<std::size_t>(op.lane)]; before >= 0) follow(self, before);
    if (is_gpu(kind) && last_wait_ >= 0) follow(self, last_wait_);
    if (const auto* wait = std::get_if<WaitWork>(&op.work))
      if (const int awaited = (step - wait->distance) * ops_ + wait->op; awaited >= 0) follow(self, awaited);

    found_.clear();
    for (const Access& access : op.reads) touch(access, false, self, op.lane);
    for (const Access& access : op.writes) touch(access, true, self, op.lane);
    for (const Edge& wish : wishes_[static_cast<std::size_t>(id)])
      if (const int from = (step - wish.distance) * ops_ + wish.from; from >= 0) found_.push_back(from);

    // What the step needs by itself is found in step 0, where nothing of an earlier step can stand in for it.
    if (step == 1)
      for (const int from : within_[static_cast<std::size_t>(id)]) follow(self, ops_ + from);
    // Latest first: an earlier op may be implied by a later one, never the other way round.
    std::sort(found_.begin(), found_.end(), std::greater<>());
    for (const int from : found_) {
      if (from == self || known(self, from)) continue;
      follow(self, from);
      edges_.push_back({from % ops_, id, step == 1 && from < ops_ ? 1 : 0});
      if (step == 0) within_[static_cast<std::size_t>(id)].push_back(from);
    }
    last_on_lane_[static_cast<std::size_t>(op.lane)] = self;
    if (kind == LaneKind::launch) last_wait_ = self;
  }

  void touch(const Access& access, bool write, int op, int lane) {
    histories_[static_cast<std::size_t>(access.buffer)].access(access.offset_bytes, access.offset_bytes + access.bytes,
                                                               write, op, lane, found_);
  }

  const Schedule& schedule_;
  const int ops_;
  const std::size_t lanes_;
  std::vector<BufferHistory> histories_;
  std::vector<std::vector<Edge>> wishes_;
  std::vector<std::vector<int>> within_;  // sources of each op's distance-0 edges
  std::vector<int> clocks_;
  std::vector<int> last_on_lane_;
  int last_wait_ = -1;
  std::vector<int> found_;
  std::vector<Edge> edges_;
};

}  // namespace

ScheduleBuilder::ScheduleBuilder(Schedule header, Makes makes)
    : schedule_(std::move(header)),
      makes_(makes),
      used_bytes_(schedule_.tiers.size(), 0),
      end_bytes_(schedule_.tiers.size(), 0) {}

int ScheduleBuilder::add_lane(const std::string& name, LaneKind kind) {
  schedule_.lanes.push_back({name, kind, 0});
  return static_cast<int>(schedule_.lanes.size()) - 1;
}

std::size_t ScheduleBuilder::tier_of(TierKind tier) const {
  std::size_t index = 0;
  while (index < schedule_.tiers.size() && schedule_.tiers[index].kind != tier) ++index;
  return index;
}

void ScheduleBuilder::refuse(std::size_t tier, const std::string& name) const {
  throw InputError("buffer '" + name + "' " +
                   (tier < used_bytes_.size()
                        ? "does not fit below 2^60 bytes: model, batch and policy together are absurdly large"
                        : "is to lie in a tier that this machine does not have"));
}

int ScheduleBuilder::place(std::size_t tier, std::int64_t bytes, int count) {
  const std::int64_t step = (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
  end_bytes_[tier] = used_bytes_[tier] + (count - 1) * step + bytes;
  used_bytes_[tier] += count * step;
  const int first = buffers_;
  buffers_ += count;
  return first;
}

std::int64_t ScheduleBuilder::arena_bytes(TierKind tier) const {
  const std::size_t index = tier_of(tier);
  return index < end_bytes_.size() ? end_bytes_[index] : 0;
}

void ScheduleBuilder::add_initial(int buffer, const Value& value, std::int64_t bytes) {
  if (makes_ == Makes::schedule) schedule_.initial.push_back({buffer, 0, bytes, value});
}

int ScheduleBuilder::add_op(Op op) {
  op.id = static_cast<int>(schedule_.ops.size());
  schedule_.ops.push_back(std::move(op));
  return schedule_.ops.back().id;
}

void ScheduleBuilder::add_edge(int from, int to, int distance) { wishes_.push_back({from, to, distance}); }

Schedule ScheduleBuilder::finish() {
  schedule_.edges = EdgeFinder(schedule_, wishes_).run();
  return std::move(schedule_);
}

}  // namespace penstock
