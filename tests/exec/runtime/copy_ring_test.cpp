// Copies through a ring, with links that are as late as they may be, and a training whose memory of the host is not
// pinned.
#include "exec/runtime/copy_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "exec/host/paced_ring.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

std::vector<std::byte> pattern(std::int64_t bytes) {
  std::vector<std::byte> all(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 31 + i / 4093);
  return all;
}

/// Moves nothing before it must: what the ring then finds, or overwrites, too early is wrong.
class LateLink : public RingLink {
 public:
  void begin(int slot, std::byte* to, const std::byte* from, std::int64_t bytes, bool) override {
    EXPECT_LE(bytes, kRingSlotBytes);
    const std::lock_guard lock(mutex_);
    begun_.push_back({slot, to, from, bytes});
    most_ = std::max(most_, begun_.size());
  }
  void wait(int slot) override {
    const std::lock_guard lock(mutex_);
    const auto is_slots = [slot](const Transfer& transfer) { return transfer.slot == slot; };
    while (std::any_of(begun_.begin(), begun_.end(), is_slots)) {
      const Transfer& first = begun_.front();
      std::memcpy(first.to, first.from, static_cast<std::size_t>(first.bytes));
      begun_.pop_front();
    }
  }
  bool is_idle() const { return begun_.empty(); }
  std::size_t most() const { return most_; }

 private:
  struct Transfer {
    int slot = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::int64_t bytes = 0;
  };
  std::mutex mutex_;
  std::deque<Transfer> begun_;
  std::size_t most_ = 0;
};

// Lengths around pieces and slots: less than one, one, all slots, slots again and again, and a byte more or less.
constexpr std::int64_t kLengths[] = {
    0, 1, 4095, (256 << 10) - 1, (256 << 10) + 1, (1 << 20) + 3, 8 * kRingSlotBytes, 9 * kRingSlotBytes + 4097};

TEST(CopyRing, EveryByteArrivesHoweverLateTheLinkIs) {
  std::vector<std::byte> slots(static_cast<std::size_t>(CopyRing::kBytes));
  for (const int threads : {1, 3, 4, 9}) {
    LateLink link;
    CopyRing ring(link, slots.data(), threads);
    for (const std::int64_t bytes : kLengths) {
      const std::vector<std::byte> from = pattern(bytes);
      std::vector<std::byte> up(from.size()), down(from.size());
      ring.upload(up.data(), from.data(), bytes);
      EXPECT_TRUE(up == from) << bytes;
      EXPECT_TRUE(link.is_idle());
      ring.download(down.data(), from.data(), bytes);
      EXPECT_TRUE(down == from) << bytes;
      EXPECT_TRUE(link.is_idle());
    }
    // One thread has all slots, and the link always something to do.
    if (threads == 1) {
      EXPECT_EQ(link.most(), static_cast<std::size_t>(kRingSlots));
    }
  }
}

TEST(PacedRing, IsNeverFasterThanItsLink) {
  PacedRing ring({.h2d_bytes_per_second = 200e6, .d2h_bytes_per_second = 100e6});
  const std::vector<std::byte> from = pattern(4 << 20);
  std::vector<std::byte> to(from.size());
  std::int64_t start = now_ns();
  ring.upload(to.data(), from.data(), 4 << 20);
  EXPECT_GE(now_ns() - start, 20'900'000);  // 4 MiB at 200 MB/s
  EXPECT_TRUE(to == from);
  std::fill(to.begin(), to.end(), std::byte{0});
  start = now_ns();
  ring.download(to.data(), from.data(), 4 << 20);
  EXPECT_GE(now_ns() - start, 41'900'000);
  EXPECT_TRUE(to == from);
}

/// All bits of a run of which `pinned` bytes of DRAM can be pinned.
RunBits bits_with(const PolicyInput& in, std::int64_t pinned, bool& through_ring) {
  SmallRun run(in, 7, {}, {.pinned_limit_bytes = pinned});
  through_ring = run.backend().pinned().has_value();
  run.training().load(*random_states(3));
  run.training().run(run.options(4));
  run.bits().states = run.training().states().fingerprint();
  return run.bits();
}

TEST(CopyRing, ATrainingHasTheSameBits) {
  for (const char* policy : {"megatrain", "zero3-offload", "ml-dataflow"}) {
    const PolicyInput in = small::input(small::llama(), policy);
    bool rings = true;
    const RunBits bits = bits_with(in, -1, rings);
    EXPECT_FALSE(rings);
    EXPECT_EQ(bits.losses.size(), 4u);
    EXPECT_EQ(bits_with(in, 0, rings), bits) << policy;
    EXPECT_TRUE(rings);
  }
}

}  // namespace
}  // namespace penstock::exec
