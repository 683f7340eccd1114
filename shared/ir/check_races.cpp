// Two accesses to the same bytes, one of them a write, must be ordered by lanes, edges and the launch rule.
//
// Instances are visited in id order, step after step, which is a topological order (check_cycles). Each gets a vector
// clock: per lane, how many of the lane's instances have surely ended when it starts. Per segment the last write and,
// per lane, the last read since then suffice: whatever is ordered after those is ordered after all before them.
//
// Two steps suffice: an access of step s is ordered after the same op's access of step s - 1 by its lane, so that what
// holds between neighbouring steps holds between all.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "shared/ir/check_parts.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

constexpr int kSteps = 2;
using Count = std::uint32_t;  // instances of a lane; place p has ended if the clock is greater than p

class Clocks {
 public:
  explicit Clocks(const Schedule& schedule) : schedule_(schedule), lane_of_(schedule.lanes.size(), -1) {
    for (const Op& op : schedule.ops) {
      int& lane = lane_of_[static_cast<std::size_t>(op.lane)];
      if (lane < 0) {
        lane = static_cast<int>(ops_.size());
        ops_.emplace_back();
      }
      place_.push_back(static_cast<Count>(ops_[static_cast<std::size_t>(lane)].size()));
      ops_[static_cast<std::size_t>(lane)].push_back(op.id);
    }
    sort_edges();
    table_.assign(kSteps * schedule.ops.size() * lanes(), 0);
    for (int step = 0; step < kSteps; ++step)
      for (const Op& op : schedule.ops) set(step, op);
  }

  /// Lanes that hold ops, numbered anew.
  std::size_t lanes() const { return ops_.size(); }
  std::size_t lane(int op) const {
    return static_cast<std::size_t>(
        lane_of_[static_cast<std::size_t>(schedule_.ops[static_cast<std::size_t>(op)].lane)]);
  }
  Count place(int step, int op) const {
    return static_cast<Count>(step) * static_cast<Count>(ops_[lane(op)].size()) + place_[static_cast<std::size_t>(op)];
  }
  int op_at(std::size_t lane, Count place) const { return ops_[lane][place % ops_[lane].size()]; }
  int step_at(std::size_t lane, Count place) const { return static_cast<int>(place / ops_[lane].size()); }
  const Count* of(int step, int op) const { return &table_[row(step, op)]; }

 private:
  std::size_t row(int step, int op) const {
    return (static_cast<std::size_t>(step) * schedule_.ops.size() + static_cast<std::size_t>(op)) * lanes();
  }

  /// Edges by their end: those into op i are into_[first_into_[i] .. first_into_[i + 1]).
  void sort_edges() {
    first_into_.assign(schedule_.ops.size() + 1, 0);
    for (const Edge& edge : schedule_.edges) ++first_into_[static_cast<std::size_t>(edge.to) + 1];
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) first_into_[i + 1] += first_into_[i];
    into_.resize(schedule_.edges.size());
    std::vector<std::size_t> next(first_into_.begin(), first_into_.end() - 1);
    for (const Edge& edge : schedule_.edges)
      into_[next[static_cast<std::size_t>(edge.to)]++] = {edge.from, edge.distance};
  }

  void join(Count* clock, int step, int op) {
    if (step < 0) return;
    const Count* other = of(step, op);
    for (std::size_t i = 0; i < lanes(); ++i) clock[i] = std::max(clock[i], other[i]);
    clock[lane(op)] = std::max(clock[lane(op)], place(step, op) + 1);
  }

  void set(int step, const Op& op) {
    Count* clock = &table_[row(step, op.id)];
    if (const Count at = place(step, op.id); at > 0)
      join(clock, step_at(lane(op.id), at - 1), op_at(lane(op.id), at - 1));
    for (std::size_t i = first_into_[static_cast<std::size_t>(op.id)];
         i < first_into_[static_cast<std::size_t>(op.id) + 1]; ++i)
      join(clock, step - into_[i].second, into_[i].first);
    if (const auto* wait = std::get_if<WaitWork>(&op.work)) {
      join(clock, step - wait->distance, wait->op);
      last_wait_ = {step, op.id};
    } else if (is_gpu(schedule_.lanes[static_cast<std::size_t>(op.lane)].kind)) {
      join(clock, last_wait_.first, last_wait_.second);
    }
  }

  const Schedule& schedule_;
  std::vector<int> lane_of_;
  std::vector<std::vector<int>> ops_;  // per lane
  std::vector<Count> place_;           // of each op in its lane
  std::vector<std::size_t> first_into_;
  std::vector<std::pair<int, int>> into_;  // from, distance
  std::vector<Count> table_;               // [step, op, lane]
  std::pair<int, int> last_wait_{-1, -1};  // launched so far: step, op
};

class RaceCheck {
 public:
  RaceCheck(const Schedule& schedule, const Segments& segments, FaultList& faults)
      : schedule_(schedule),
        segments_(segments),
        faults_(faults),
        clocks_(schedule),
        writes_(segments.count()),
        reads_(segments.count() * clocks_.lanes(), kNone),
        read_at_all_(segments.count(), false) {}

  void run() {
    for (int step = 0; step < kSteps; ++step)
      for (const Op& op : schedule_.ops) {
        if (faults_.full()) return;
        for (std::size_t i = 0; i < op.reads.size(); ++i) read(step, op, segments_.read(op.id, i));
        for (std::size_t i = 0; i < op.writes.size(); ++i) write(step, op, segments_.write(op.id, i));
      }
  }

 private:
  static constexpr Count kNone = std::numeric_limits<Count>::max();
  struct Place {
    std::uint32_t lane = 0;
    Count place = kNone;
  };

  void read(int step, const Op& op, SegmentRange range) {
    const Count* clock = clocks_.of(step, op.id);
    const std::size_t lane = clocks_.lane(op.id);
    const Count place = clocks_.place(step, op.id);
    for (std::uint32_t segment = range.first; segment < range.last; ++segment) {
      const Place& last = writes_[segment];
      if (last.place != kNone && clock[last.lane] <= last.place)
        report(last.lane, last.place, true, step, op, false, segment);
      reads_[segment * clocks_.lanes() + lane] = place;
      read_at_all_[segment] = true;
    }
  }

  void write(int step, const Op& op, SegmentRange range) {
    const Count* clock = clocks_.of(step, op.id);
    const auto lane = static_cast<std::uint32_t>(clocks_.lane(op.id));
    const Count place = clocks_.place(step, op.id);
    for (std::uint32_t segment = range.first; segment < range.last; ++segment) {
      Place& last = writes_[segment];
      const auto unordered = [&](std::size_t other, Count at) {
        return at != kNone && clock[other] <= at && !(other == lane && at == place);  // its own access does not count
      };
      if (unordered(last.lane, last.place)) report(last.lane, last.place, true, step, op, true, segment);
      if (read_at_all_[segment]) {
        Count* reads = &reads_[segment * clocks_.lanes()];
        for (std::size_t other = 0; other < clocks_.lanes(); ++other) {
          if (unordered(other, reads[other])) report(other, reads[other], false, step, op, true, segment);
          reads[other] = kNone;
        }
        read_at_all_[segment] = false;
      }
      last = {lane, place};
    }
  }

  const Access& access_at(const Op& op, bool writes, std::uint32_t segment) const {
    const std::vector<Access>& list = writes ? op.writes : op.reads;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const SegmentRange range = writes ? segments_.write(op.id, i) : segments_.read(op.id, i);
      if (range.first <= segment && segment < range.last) return list[i];
    }
    return list.front();
  }

  void report(std::size_t lane, Count place, bool first_writes, int step, const Op& op, bool second_writes,
              std::uint32_t segment) {
    if (faults_.full()) return;
    const Op& first = schedule_.ops[static_cast<std::size_t>(clocks_.op_at(lane, place))];
    const int distance = step - clocks_.step_at(lane, place);
    const std::tuple key{first.id, op.id, distance};
    if (std::find(reported_.begin(), reported_.end(), key) != reported_.end()) return;
    reported_.push_back(key);
    const Access& before = access_at(first, first_writes, segment);
    const Access& after = access_at(op, second_writes, segment);
    faults_.add(
        FaultKind::race, first.id, op.id,
        fmt::format("{}{} {} {} in {}, and {} {} {} there, but nothing makes the second wait for the first: an edge "
                    "from op {} to "
                    "op {} of distance {} would",
                    op_title(first), distance == 0 ? "" : " of the step before", first_writes ? "writes" : "reads",
                    value_label(before.value), range_title(schedule_, before), op_title(op),
                    second_writes ? "writes" : "reads", value_label(after.value), first.id, op.id, distance));
  }

  const Schedule& schedule_;
  const Segments& segments_;
  FaultList& faults_;
  Clocks clocks_;
  std::vector<Place> writes_;                        // last write of each segment
  std::vector<Count> reads_;                         // [segment, lane] last read since then
  std::vector<bool> read_at_all_;                    // since the last write
  std::vector<std::tuple<int, int, int>> reported_;  // first op, second op, distance; no more than the limit of faults
};

}  // namespace

void check_races(const Schedule& schedule, const Segments& segments, FaultList& faults) {
  RaceCheck(schedule, segments, faults).run();
}

}  // namespace penstock
