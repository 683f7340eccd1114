// Turns a list of ops into a schedule: the writer appends ops in an order that would be right if they ran
// one after the other; the builder derives the edges that keep every concurrent execution equal to it.
//
// Hazards (read after write, write after read, write after write, by bytes) within a step become distance-0 edges;
// hazards between a step and the next become distance-1 edges. An edge that lane order, the launch rule and other
// edges already imply is left out, so that every edge in the file carries weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/drive_alignment.h"
#include "shared/ir/schedule.h"

namespace penstock {

class ScheduleBuilder {
 public:
  /// What comes of it: the schedule, or only where buffers would lie. Then no buffer is kept, nor what lies in it, and
  /// `finish` has nothing to give; sizes are all that the planner asks for, thousands of times.
  enum class Makes { schedule, places };

  /// Starts from a schedule without buffers, ops and edges; its tiers are filled as buffers are placed.
  ScheduleBuilder(Schedule header, Makes makes);

  int add_lane(const std::string& name, LaneKind kind);
  /// Places `bytes` at the end of the tier's arena, `count` times: more than once only where places alone are made.
  /// Aligned to kFieldAlignment or, for copies to and from NVMe, aligned and padded to kDriveAlignment. Returns the
  /// (first) buffer's index. `name()` is called where it is needed.
  template <typename Name>
  int add_buffers(int count, TierKind tier, std::int64_t bytes, bool for_drive, const Name& name) {
    const std::size_t index = tier_of(tier);
    if (!has_room(index, bytes, count)) refuse(index, name());
    if (for_drive) {
      bytes = padded_for_drive(bytes);
      used_bytes_[index] = padded_for_drive(used_bytes_[index]);
    }
    if (makes_ == Makes::schedule)
      schedule_.buffers.push_back({name(), static_cast<int>(index), used_bytes_[index], bytes});
    return place(index, bytes, count);
  }
  /// Declares that `value` lies there before step 0.
  void add_initial(int buffer, const Value& value, std::int64_t bytes);
  /// Appends an op and returns its id.
  int add_op(Op op);
  /// An ordering that is the policy's wish, not a hazard (a barrier).
  void add_edge(int from, int to, int distance);

  Makes makes() const { return makes_; }
  const Schedule& schedule() const { return schedule_; }
  /// Highest end of a buffer in the tier; 0 if there is no such tier.
  std::int64_t arena_bytes(TierKind tier) const;
  /// Derives the edges. The builder is spent.
  Schedule finish();

 private:
  /// Index of the tier, their number if there is none.
  std::size_t tier_of(TierKind tier) const;
  bool has_room(std::size_t tier, std::int64_t bytes, int count) const {
    if (tier >= used_bytes_.size()) return false;
    const std::int64_t room = kMostTierBytes - used_bytes_[tier];
    return bytes <= (count == 1 ? room : room / count);
  }
  [[noreturn]] void refuse(std::size_t tier, const std::string& name) const;
  int place(std::size_t tier, std::int64_t bytes, int count);

  static constexpr std::int64_t kMostTierBytes = std::int64_t{1} << 60;

  Schedule schedule_;
  Makes makes_;
  int buffers_ = 0;
  std::vector<std::int64_t> used_bytes_, end_bytes_;  // per tier: where the next buffer goes; the last one's end
  std::vector<Edge> wishes_;
};

}  // namespace penstock
