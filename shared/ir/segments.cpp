#include "shared/ir/segments.h"

#include <algorithm>
#include <utility>

#include "shared/drive_alignment.h"

namespace penstock {
namespace {

/// Remembers some of the addresses that it was asked for: ops of one kind touch the same places again and again.
class Recent {
 public:
  bool seen(std::int64_t address) {
    const auto hash = static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15U;
    return std::exchange(addresses_[hash >> (64 - kBits)], address) == address;
  }

 private:
  static constexpr int kBits = 12;
  std::vector<std::int64_t> addresses_ = std::vector<std::int64_t>(std::size_t{1} << kBits, -1);  // no address
};

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
  std::vector<Recent> recent(cuts.size());
  std::size_t accesses = 0;
  for_each_access(schedule, [&](const Access& access, std::int64_t bytes) {
    const std::size_t tier = tier_of(access);
    const std::int64_t address = tier_address(schedule, access);
    for (const std::int64_t at : {address, address + bytes})
      if (!recent[tier].seen(at)) cuts[tier].push_back(at);
    ++accesses;
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
