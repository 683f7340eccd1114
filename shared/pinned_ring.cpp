#include "shared/pinned_ring.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kPage = 4096, kLeastPiece = std::int64_t{256} << 10;

}  // namespace

std::int64_t directly_copied_bytes(std::int64_t arena_bytes, std::int64_t pinned_bytes) {
  if (pinned_bytes >= arena_bytes) return arena_bytes;
  return std::max<std::int64_t>(0, pinned_bytes - kRingsBytes - kPinnedSpareBytes) / kMiB * kMiB;
}

std::int64_t ring_piece_bytes(std::int64_t bytes) {
  const std::int64_t part = (bytes / 16 + kPage - 1) / kPage * kPage;
  const std::int64_t piece = std::clamp(part, kLeastPiece, kRingSlotBytes);
  return std::max<std::int64_t>(1, std::min(piece, bytes));
}

int ring_threads(int cores) { return std::clamp(cores / 4, 1, 4); }

}  // namespace penstock
