#include "exec/runtime/run_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace penstock::exec {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(RunMemory, TheLargestArenasLeaveRoomForWhatLiesBesideThem) {
  BesideArenas beside;
  beside.program_bytes = 100 * kMiB;
  beside.kernel_bytes = 50 * kMiB;
  beside.arena_share = 0.01;
  const std::int64_t arenas = beside.largest_arenas(4 * kGiB);
  EXPECT_LE(arenas + beside.total(arenas), 4 * kGiB);
  EXPECT_GT(arenas + kMiB + beside.total(arenas + kMiB), 4 * kGiB);
  EXPECT_EQ(beside.largest_arenas(120 * kMiB), 0);
}

TEST(RunMemory, RecordedTimesTakeASmallPartOfTheMemory) {
  Schedule schedule;
  schedule.ops.resize(1 << 20);
  // 1/64 of 4 GiB is 64 MiB: one step of 2^20 ops at 40 bytes, not two.
  EXPECT_EQ(recorded_steps(schedule, 10, true, 4 * kGiB), 1);
  EXPECT_EQ(recorded_steps(schedule, 10, true, 8 * kGiB), 3);
  EXPECT_EQ(recorded_steps(schedule, 10, true, 64 * kGiB), 10);
  EXPECT_EQ(recorded_steps(schedule, 10, false, 64 * kGiB), 1);  // with two CUDA events each, of 1 GiB in all
  schedule.ops.resize(100);
  EXPECT_EQ(recorded_steps(schedule, 10, true, kMiB), 10);
}

TEST(RunMemory, ThePeakIsOfWhatWasHeldSinceItBegan) {
  begin_resident_peak();
  const std::int64_t before = peak_resident_bytes();
  if (before < 0) GTEST_SKIP() << "/proc/self/status does not say";
  void* memory = mmap(nullptr, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, 64 << 20);
  munmap(memory, 64 << 20);
  EXPECT_GE(peak_resident_bytes(), before + 60 * kMiB);
}

}  // namespace
}  // namespace penstock::exec
