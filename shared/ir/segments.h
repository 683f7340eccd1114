// The bytes of every tier, cut wherever an access begins or ends: within one segment all bytes share one history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

/// Half-open range of segment numbers.
struct SegmentRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  std::uint32_t size() const { return last - first; }
};

/// Segments are numbered over all tiers, tier by tier, by address. Buffers may overlap in bytes.
/// REQUIRES: indices and ranges in bounds, as check_structure proves.
class Segments {
 public:
  explicit Segments(const Schedule& schedule);

  std::size_t count() const { return bytes_.size(); }
  std::int64_t bytes(std::uint32_t segment) const { return bytes_[segment]; }
  /// Address of the segment's first byte within its tier.
  std::int64_t start(std::uint32_t segment) const { return start_[segment]; }
  int tier(std::uint32_t segment) const { return tier_[segment]; }

  SegmentRange initial(std::size_t index) const { return ranges_[index]; }
  SegmentRange read(int op, std::size_t index) const {
    return ranges_[first_access_[static_cast<std::size_t>(op)] + index];
  }
  SegmentRange write(int op, std::size_t index) const {
    return ranges_[first_write_[static_cast<std::size_t>(op)] + index];
  }
  /// Sum of the sizes of all ranges: what a pass over all accesses costs.
  std::int64_t visits() const { return visits_; }

 private:
  std::vector<std::int64_t> bytes_, start_;
  std::vector<int> tier_;
  std::vector<SegmentRange> ranges_;  // initial, then per op reads and writes
  std::vector<std::size_t> first_access_, first_write_;
  std::int64_t visits_ = 0;
};

/// Address of the access's first byte within its tier.
inline std::int64_t tier_address(const Schedule& schedule, const Access& access) {
  return schedule.buffers[static_cast<std::size_t>(access.buffer)].offset_bytes + access.offset_bytes;
}

}  // namespace penstock
