// The host backend's link and arenas.
#include "exec/host/backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/memory/arena.h"
#include "exec/runtime/recorder.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 31 + i / 256);
  return all;
}

TEST(PacedCopy, CopiesEveryByteWhateverTheChunks) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{256 << 10}, std::size_t{(256 << 10) + 1}, std::size_t{600'001}}) {
    const std::vector<std::byte> from = pattern(bytes);
    std::vector<std::byte> to(bytes);
    paced_copy(to.data(), from.data(), static_cast<std::int64_t>(bytes), 1e9);
    EXPECT_EQ(to, from) << bytes;
    std::vector<std::byte> unthrottled(bytes);
    paced_copy(unthrottled.data(), from.data(), static_cast<std::int64_t>(bytes), 0);
    EXPECT_EQ(unthrottled, from) << bytes;
  }
}

TEST(PacedCopy, IsNeverFasterThanItsRate) {
  const std::vector<std::byte> from = pattern(1'000'000);
  std::vector<std::byte> to(from.size());
  const std::int64_t start = now_ns();
  paced_copy(to.data(), from.data(), 1'000'000, 50e6);  // 20 ms
  EXPECT_GE(now_ns() - start, 20'000'000);
}

TEST(LinkRate, DirectionFollowsTheTiers) {
  const HostBackendOptions options{.h2d_bytes_per_second = 1, .d2h_bytes_per_second = 2};
  EXPECT_EQ(link_rate(options, TierKind::dram, TierKind::hbm), 1);
  EXPECT_EQ(link_rate(options, TierKind::nvme, TierKind::hbm), 1);
  EXPECT_EQ(link_rate(options, TierKind::hbm, TierKind::dram), 2);
  EXPECT_EQ(link_rate(options, TierKind::hbm, TierKind::hbm), 0);
  EXPECT_EQ(link_rate(options, TierKind::dram, TierKind::dram), 0);
}

TEST(Arena, IsZeroedAndItsOwn) {
  Arena arena(10'000, "test");
  for (std::int64_t i = 0; i < arena.bytes(); ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
  arena.data()[9'999] = std::byte{7};
  const Arena moved = std::move(arena);
  EXPECT_EQ(moved.data()[9'999], std::byte{7});
}

TEST(Arena, OfNothingHasNoMemory) { EXPECT_EQ(Arena(0, "test").data(), nullptr); }

std::string refusal(std::int64_t bytes, const FreeMemory& free) {
  try {
    const Arena arena(bytes, "test", free);
    return "";
  } catch (const DoesNotFit& error) {
    return error.what();
  }
}

TEST(Arena, IsNotTakenWhereTooLittleIsFree) {
  constexpr std::int64_t kMiB = 1 << 20;
  int looks = 0;
  const FreeMemory enough{[&] { return ++looks, 9 * kMiB; }, kMiB};
  EXPECT_EQ(refusal(8 * kMiB, enough), "");
  EXPECT_EQ(looks, 1);
  const std::string text = refusal(8 * kMiB + 1, enough);
  EXPECT_NE(text.find("0 B were taken: this machine has 9.00 MiB left"), std::string::npos) << text;
}

TEST(Arena, GivesUpWhereFreeMemoryFallsFasterThanItTakes) {
  // Another program takes as much as the arena does: it is noticed at the first look, after one step of the two.
  std::atomic<int> looks = 0;
  const std::int64_t bytes = 2 * kFreeMemoryStep, least = 1 << 20;
  const FreeMemory shrinking{[&] { return bytes + least - 2 * kFreeMemoryStep * looks++; }, least};
  const std::string text = refusal(bytes, shrinking);
  EXPECT_NE(text.find("too few. Other programs"), std::string::npos) << text;
  EXPECT_GE(looks, 2);
  EXPECT_EQ(text.find("0 B were taken"), std::string::npos) << text;
}

TEST(Arena, WhatCannotBeReservedDoesNotFit) { EXPECT_THROW(Arena(std::int64_t{1} << 60, "test"), DoesNotFit); }

TEST(HostBackend, ItsMemoryIsWrittenAndReadByRange) {
  const auto backend = make_host_backend({});
  const std::unique_ptr<Memory> memory = backend->allocate(TierKind::dram, 8192);
  const std::vector<std::byte> from = pattern(100);
  std::vector<std::byte> to(100);
  memory->write(5000, from);
  memory->read(5000, to);
  EXPECT_EQ(to, from);
  EXPECT_EQ(memory->address()[4999], std::byte{0});
  EXPECT_EQ(memory->address()[5000], from[0]);
}

}  // namespace
}  // namespace penstock::exec
