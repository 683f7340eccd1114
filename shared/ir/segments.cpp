#include "shared/ir/segments.h"

#include <algorithm>

#include "shared/drive_alignment.h"

namespace penstock {
namespace {

/// Calls visit(access, bytes). A copy to or from NVMe writes its padding too.
template <typename Visit>
void for_each_access(const Schedule& schedule, Visit visit) {
  const auto on_drive_lane = [&](const Op& op) {
    const LaneKind kind = schedule.lanes[static_cast<std::size_t>(op.lane)].kind;
    return kind == LaneKind::nvme_read || kind == LaneKind::nvme_write;
  };
  for (const Access& access : schedule.initial) visit(access, access.bytes);
  for (const Op& op : schedule.ops) {
    const bool pads = on_drive_lane(op);
    for (const Access& access : op.reads) visit(access, access.bytes);
    for (const Access& access : op.writes) visit(access, pads ? padded_for_drive(access.bytes) : access.bytes);
  }
}

}  // namespace

Segments::Segments(const Schedule& schedule) {
  std::vector<std::vector<std::int64_t>> cuts(schedule.tiers.size());
  const auto tier_of = [&](const Access& access) {
    return static_cast<std::size_t>(schedule.buffers[static_cast<std::size_t>(access.buffer)].tier);
  };
  std::vector<std::size_t> in_tier(cuts.size(), 0);
  for_each_access(schedule, [&](const Access& access, std::int64_t) { ++in_tier[tier_of(access)]; });
  std::size_t accesses = 0;
  for (std::size_t tier = 0; tier < cuts.size(); ++tier) {
    cuts[tier].reserve(2 * in_tier[tier]);
    accesses += in_tier[tier];
  }
  for_each_access(schedule, [&](const Access& access, std::int64_t bytes) {
    const std::int64_t address = tier_address(schedule, access);
    cuts[tier_of(access)].push_back(address);
    cuts[tier_of(access)].push_back(address + bytes);
  });

  std::vector<std::uint32_t> base(cuts.size());
  for (std::size_t tier = 0; tier < cuts.size(); ++tier) {
    std::vector<std::int64_t>& at = cuts[tier];
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    at.shrink_to_fit();
    base[tier] = static_cast<std::uint32_t>(bytes_.size());
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      start_.push_back(at[i]);
      bytes_.push_back(at[i + 1] - at[i]);
      tier_.push_back(static_cast<int>(tier));
    }
  }

  ranges_.reserve(accesses);
  for_each_access(schedule, [&](const Access& access, std::int64_t bytes) {
    const std::size_t tier = tier_of(access);
    const std::int64_t address = tier_address(schedule, access);
    const auto begin = cuts[tier].begin();
    const auto first = std::lower_bound(begin, cuts[tier].end(), address);
    // Most accesses cover few segments: the end is near.
    auto last = first;
    for (int near = 0; near < 8 && *last != address + bytes; ++near) ++last;
    if (*last != address + bytes) last = std::lower_bound(last, cuts[tier].end(), address + bytes);
    ranges_.push_back({base[tier] + static_cast<std::uint32_t>(first - begin),
                       base[tier] + static_cast<std::uint32_t>(last - begin)});
    visits_ += ranges_.back().size();
  });

  first_access_.reserve(schedule.ops.size());
  first_write_.reserve(schedule.ops.size());
  std::size_t next = schedule.initial.size();
  for (const Op& op : schedule.ops) {
    first_access_.push_back(next);
    first_write_.push_back(next + op.reads.size());
    next += op.reads.size() + op.writes.size();
  }
}

}  // namespace penstock
