#include "shared/pinned_ring.h"

#include <gtest/gtest.h>

#include "shared/machine/pinned_memory.h"
#include "tests/shared/error_text.h"

namespace penstock {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;

TEST(PinnedRing, TheBeginningOfTheArenaIsCopiedDirectly) {
  EXPECT_EQ(kRingsBytes, 128 * kMiB);
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, kGiB), (1024 - 128 - 64) * kMiB);
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, kGiB + 5), (1024 - 128 - 64) * kMiB);  // whole MiB
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, 12 * kGiB), 12 * kGiB);
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, 150 * kMiB), 0);
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, 0), 0);
  EXPECT_EQ(directly_copied_bytes(0, 0), 0);
}

TEST(PinnedRing, AMachineThatDoesNotSayPinsAll) {
  Machine machine;
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, machine), 12 * kGiB);
  EXPECT_EQ(pinned_text(12 * kGiB, machine), "");
  machine.pinned_bytes = kGiB;
  EXPECT_EQ(directly_copied_bytes(12 * kGiB, machine), 832 * kMiB);
  EXPECT_MENTIONS(pinned_text(12 * kGiB, machine),
                  "1.00 GiB of dram, so 832.00 MiB of the arena are copied directly and 11.19 GiB through rings of "
                  "128.00 MiB");
  EXPECT_EQ(pinned_text(kGiB, machine), "");
}

TEST(PinnedRing, PiecesOverlapHoweverShortTheCopy) {
  EXPECT_EQ(ring_piece_bytes(kGiB), kRingSlotBytes);
  EXPECT_EQ(ring_piece_bytes(16 * kRingSlotBytes), kRingSlotBytes);
  EXPECT_EQ(ring_piece_bytes(32 * kMiB), 2 * kMiB);
  EXPECT_EQ(ring_piece_bytes(32 * kMiB + 7), 2 * kMiB);
  EXPECT_EQ(ring_piece_bytes(32 * kMiB + 16 * 4096), 2 * kMiB + 4096);
  EXPECT_EQ(ring_piece_bytes(kMiB), 256 << 10);
  EXPECT_EQ(ring_piece_bytes(4), 4);
  EXPECT_EQ(ring_piece_bytes(0), 1);
}

TEST(PinnedRing, AQuarterOfTheCoresMovesPiecesAndNoMoreThanFour) {
  EXPECT_EQ(ring_threads(1), 1);
  EXPECT_EQ(ring_threads(8), 2);
  EXPECT_EQ(ring_threads(16), 4);
  EXPECT_EQ(ring_threads(128), 4);
}

}  // namespace
}  // namespace penstock
