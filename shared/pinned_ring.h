// How host memory is copied to and from a GPU where the system pins less than the arena takes.
//
// What can be pinned is the beginning of the arena, whose copies go as ever, and a ring of slots for each lane with
// other copies: threads of the host move piece after piece between the arena and a slot while the GPU's copy engine
// moves the pieces before between their slots and the GPU. The same figures decide what a run does and what is
// predicted of it.
#pragma once

#include <cstdint>

namespace penstock {

/// Of one lane: two for each of at most four threads. 4 MiB take 0.08 ms over PCIe 5 and a thread 0.4 ms, several times
/// what handing a piece over costs.
inline constexpr std::int64_t kRingSlotBytes = std::int64_t{4} << 20;
inline constexpr int kRingSlots = 8;
/// A schedule has a lane for uploads, one for downloads, or one for both; others would wait for a ring.
inline constexpr int kMostRings = 4;
/// What is pinned for rings, whatever the arena takes: the least that anybody may say can be pinned.
inline constexpr std::int64_t kRingsBytes = kMostRings * kRingSlots * kRingSlotBytes;
/// What is left to the driver and its libraries, which pin buffers of their own.
inline constexpr std::int64_t kPinnedSpareBytes = std::int64_t{64} << 20;

/// Of the arena's bytes, from its beginning, those that are pinned themselves if `pinned_bytes` can be: all, or what
/// rings and spare leave, in whole MiB; never negative.
std::int64_t directly_copied_bytes(std::int64_t arena_bytes, std::int64_t pinned_bytes);
/// One piece of a copy of `bytes`: a slot, or a sixteenth of a copy that is less than sixteen slots, so that threads which
/// wake late have a part in it and end together; at least 256 KiB, in whole pages. 1 for nothing.
std::int64_t ring_piece_bytes(std::int64_t bytes);

/// Threads that move the pieces of one lane on a host with so many cores.
int ring_threads(int cores);

}  // namespace penstock
