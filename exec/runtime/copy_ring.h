// Copies between the GPU and host memory that is not pinned, through slots that are (shared/pinned_ring.h says
// how many and how large). The calling thread and its helpers move pieces between memory and slots; a link moves them
// between slots and the GPU meanwhile. Each thread takes the next piece when it is done with one and has slots of its
// own: where cores are short, one that is held up holds up no other.
//
// A slot is filled anew only once the link has emptied it, and emptied only once the link has filled it, so that every
// byte arrives whatever the two do in between; a copy has ended when its call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "shared/pinned_ring.h"

namespace penstock::exec {

/// What moves a slot to the GPU or from there. Called by several threads, for a slot by one at a time.
class RingLink {
 public:
  virtual ~RingLink() = default;
  /// Begins it, behind all that was begun before for that slot. One of `to` and `from` is the slot.
  virtual void begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool upload) = 0;
  /// Blocks until what was begun last for that slot has ended.
  virtual void wait(int slot) = 0;
};

class CopyRing {
 public:
  static constexpr std::int64_t kBytes = kRingSlots * kRingSlotBytes;

  /// `slots`: kBytes, which the link can reach. Both outlive this.
  CopyRing(RingLink& link, std::byte* slots, int threads) : link_(link), slots_(slots), threads_(threads) {}

  /// Blocks until the bytes are there. From one thread at a time.
  void upload(std::byte* to_gpu, const std::byte* from, std::int64_t bytes);
  void download(std::byte* to, const std::byte* from_gpu, std::int64_t bytes);

 private:
  class Pieces;
  /// A thread's part in a copy: pieces until none is left, through the slots [first, first + count).
  void upload_pieces(Pieces& pieces, int first, int count, std::byte* to_gpu, const std::byte* from);
  void download_pieces(Pieces& pieces, int first, int count, std::byte* to, const std::byte* from_gpu);
  void share(const std::function<void(int first, int count)>& part) const;
  std::byte* slot(int index) const { return slots_ + index * kRingSlotBytes; }

  RingLink& link_;
  std::byte* slots_;
  int threads_;
};

}  // namespace penstock::exec
