// Copies between the GPU and host memory that is not pinned, through slots that are (shared/pinned_ring.h says
// how many and how large). The calling thread and its helpers move pieces between memory and slots; a link moves them
// between slots and the GPU meanwhile.
//
// A slot is filled anew only once the link has emptied it, and emptied only once the link has filled it, so that every
// byte arrives whatever the two do in between; a copy has ended when its call returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/pinned_ring.h"

namespace penstock::exec {

/// What moves a slot to the GPU or from there.
class RingLink {
 public:
  virtual ~RingLink() = default;
  /// Begins it, behind all that was begun before. One of `to` and `from` is the slot.
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
  std::byte* slot(int index) const { return slots_ + index * kRingSlotBytes; }
  void move(std::byte* to, const std::byte* from, std::int64_t bytes) const;

  RingLink& link_;
  std::byte* slots_;
  int threads_;
};

}  // namespace penstock::exec
