#include "exec/runtime/copy_ring.h"

#include <algorithm>
#include <cstring>

#include "exec/optimizer/thread_team.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

void CopyRing::move(std::byte* to, const std::byte* from, std::int64_t bytes) const {
  for_ranges(bytes, kPage, threads_, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

void CopyRing::upload(std::byte* to_gpu, const std::byte* from, std::int64_t bytes) {
  const std::int64_t piece = ring_piece_bytes(bytes);
  std::int64_t pieces = 0;
  for (std::int64_t at = 0; at < bytes; at += piece, ++pieces) {
    const int index = static_cast<int>(pieces % kRingSlots);
    const std::int64_t count = std::min(piece, bytes - at);
    if (pieces >= kRingSlots) link_.wait(index);
    move(slot(index), from + at, count);
    link_.begin(index, to_gpu + at, slot(index), count, true);
  }
  for (std::int64_t i = std::max<std::int64_t>(0, pieces - kRingSlots); i < pieces; ++i)
    link_.wait(static_cast<int>(i % kRingSlots));
}

void CopyRing::download(std::byte* to, const std::byte* from_gpu, std::int64_t bytes) {
  const std::int64_t piece = ring_piece_bytes(bytes);
  const std::int64_t pieces = (bytes + piece - 1) / piece;
  const auto count = [=](std::int64_t i) { return std::min(piece, bytes - i * piece); };
  for (std::int64_t i = 0; i < pieces + kRingSlots; ++i) {
    const int index = static_cast<int>(i % kRingSlots);
    if (const std::int64_t filled = i - kRingSlots; filled >= 0 && filled < pieces) {
      link_.wait(index);
      move(to + filled * piece, slot(index), count(filled));
    }
    if (i < pieces) link_.begin(index, slot(index), from_gpu + i * piece, count(i), false);
  }
}

}  // namespace penstock::exec
