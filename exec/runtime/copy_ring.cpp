#include "exec/runtime/copy_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "exec/optimizer/thread_team.h"

namespace penstock::exec {

/// The pieces of one copy, given out one after the other.
class CopyRing::Pieces {
 public:
  explicit Pieces(std::int64_t bytes) : bytes_(bytes), piece_(ring_piece_bytes(bytes)) {}
  /// False: none is left.
  bool next(std::int64_t& at, std::int64_t& count) {
    at = given_.fetch_add(1, std::memory_order_relaxed) * piece_;
    count = std::min(piece_, bytes_ - at);
    return at < bytes_;
  }

 private:
  const std::int64_t bytes_, piece_;
  std::atomic<std::int64_t> given_{0};
};

void CopyRing::upload(std::byte* to_gpu, const std::byte* from, std::int64_t bytes) {
  Pieces pieces(bytes);
  share([&](int first, int count) { upload_pieces(pieces, first, count, to_gpu, from); });
}

void CopyRing::download(std::byte* to, const std::byte* from_gpu, std::int64_t bytes) {
  Pieces pieces(bytes);
  share([&](int first, int count) { download_pieces(pieces, first, count, to, from_gpu); });
}

void CopyRing::share(const std::function<void(int first, int count)>& part) const {
  const int threads = std::clamp(threads_, 1, kRingSlots / 2);  // two slots: one moves while the other is on the link
  const int each = kRingSlots / threads;
  for_ranges(threads, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) part(static_cast<int>(i) * each, each);
  });
}

void CopyRing::upload_pieces(Pieces& pieces, int first, int count, std::byte* to_gpu, const std::byte* from) {
  int taken = 0;
  for (std::int64_t at, bytes; pieces.next(at, bytes); ++taken) {
    const int index = first + taken % count;
    if (taken >= count) link_.wait(index);
    std::memcpy(slot(index), from + at, static_cast<std::size_t>(bytes));
    link_.begin(index, to_gpu + at, slot(index), bytes, true);
  }
  for (int i = std::max(0, taken - count); i < taken; ++i) link_.wait(first + i % count);
}

void CopyRing::download_pieces(Pieces& pieces, int first, int count, std::byte* to, const std::byte* from_gpu) {
  struct {
    std::int64_t at, bytes;
  } begun[kRingSlots];
  int taken = 0;
  for (int moved = 0;; ++moved) {
    for (std::int64_t at, bytes; taken < moved + count && pieces.next(at, bytes); ++taken) {
      const int index = first + taken % count;
      link_.begin(index, slot(index), from_gpu + at, bytes, false);
      begun[taken % count] = {at, bytes};
    }
    if (moved == taken) return;
    const auto& piece = begun[moved % count];
    link_.wait(first + moved % count);
    std::memcpy(to + piece.at, slot(first + moved % count), static_cast<std::size_t>(piece.bytes));
  }
}

}  // namespace penstock::exec
