#include "exec/runtime/limits.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/error.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

void write_meminfo(const TemporaryFolder& root, const std::string& total_kib, const std::string& available_kib) {
  root.write("proc/meminfo",
             "MemTotal:       " + total_kib + " kB\nMemFree: 1 kB\nMemAvailable:   " + available_kib + " kB\n");
}

TEST(MemoryLimits, WithoutAContainerWhatIsAvailableCounts) {
  const TemporaryFolder root;
  write_meminfo(root, "8388608", "4194304");
  const MemoryLimits limits = read_memory_limits(root.path());
  EXPECT_EQ(limits.physical_bytes, 8 * kGiB);
  EXPECT_EQ(limits.container_bytes, -1);
  EXPECT_EQ(limits.usable_bytes(), 4 * kGiB);
}

TEST(MemoryLimits, CgroupTwoTakesTheTightestFromTheProcessUp) {
  const TemporaryFolder root;
  write_meminfo(root, "67108864", "67108864");
  root.write("proc/self/cgroup", "0::/pod/job\n");
  root.write("sys/fs/cgroup/pod/job/memory.max", "max\n");
  root.write("sys/fs/cgroup/pod/memory.max", "4294967296\n");
  root.write("sys/fs/cgroup/pod/memory.current", "3221225472\n");
  root.write("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 1073741800\nactive_file 24\n");
  const MemoryLimits limits = read_memory_limits(root.path());
  EXPECT_EQ(limits.container_bytes, 4 * kGiB);
  // 3 GiB in use, 1 GiB of it cache that goes when memory is asked for.
  EXPECT_EQ(limits.usable_bytes(), 2 * kGiB);
}

TEST(MemoryLimits, TheGroupThatLeavesLeastCountsThoughItsLimitIsTheLarger) {
  const TemporaryFolder root;
  write_meminfo(root, "67108864", "67108864");
  root.write("proc/self/cgroup", "0::/pod/job\n");
  root.write("sys/fs/cgroup/pod/job/memory.max", "4294967296\n");
  root.write("sys/fs/cgroup/pod/job/memory.current", "0\n");
  root.write("sys/fs/cgroup/pod/memory.max", "8589934592\n");
  root.write("sys/fs/cgroup/pod/memory.current", "7516192768\n");
  const MemoryLimits limits = read_memory_limits(root.path());
  EXPECT_EQ(limits.container_bytes, 8 * kGiB);
  EXPECT_EQ(limits.usable_bytes(), kGiB);
}

TEST(MemoryLimits, CgroupOneWithoutALimitHasAnAbsurdNumber) {
  const TemporaryFolder root;
  write_meminfo(root, "8388608", "4194304");
  root.write("proc/self/cgroup", "5:memory:/job\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
  EXPECT_EQ(read_memory_limits(root.path()).usable_bytes(), 2 * kGiB);
}

// What is above memory.high is not refused, but every page of it is waited for.
TEST(MemoryLimits, CgroupTwoSlowsDownBeforeItRefuses) {
  const TemporaryFolder root;
  write_meminfo(root, "67108864", "67108864");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "4294967296\n");
  root.write("sys/fs/cgroup/job/memory.high", "3221225472\n");
  root.write("sys/fs/cgroup/job/memory.current", "1073741824\n");
  EXPECT_EQ(read_memory_limits(root.path()).container_bytes, 3 * kGiB);
  EXPECT_EQ(read_memory_limits(root.path()).usable_bytes(), 2 * kGiB);
}

TEST(MemoryLimits, CoresAreThoseWhoseTimeTheGroupsGive) {
  const TemporaryFolder root;
  write_meminfo(root, "8388608", "4194304");
  const int all = read_memory_limits(root.path()).cores;
  root.write("proc/self/cgroup", "0::/pod/job\n");
  root.write("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n");
  EXPECT_EQ(read_memory_limits(root.path()).cores, all);
  root.write("sys/fs/cgroup/pod/cpu.max", "50000 100000\n");  // half of one
  EXPECT_EQ(read_memory_limits(root.path()).cores, 1);
  root.write("sys/fs/cgroup/pod/cpu.max", "9223372036854775807 1\n");
  EXPECT_EQ(read_memory_limits(root.path()).cores, all);
}

TEST(MemoryLimits, CgroupOneHasItsQuotaInTwoFiles) {
  const TemporaryFolder root;
  write_meminfo(root, "8388608", "4194304");
  const int all = read_memory_limits(root.path()).cores;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  root.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(read_memory_limits(root.path()).cores, all);
  root.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(read_memory_limits(root.path()).cores, 1);
}

TEST(MemoryLimits, ArenasThatExceedThemAreRefusedByHowMuch) {
  Schedule schedule;
  schedule.tiers = {{TierKind::hbm, 0, 0}, {TierKind::dram, 0, 0}};
  MemoryLimits limits;
  limits.available_bytes = 3 * kGiB + kGiB / 2;
  BesideArenas beside;
  beside.program_bytes = 32 << 20;
  beside.times_bytes = 32 << 20;
  EXPECT_NO_THROW(require_host_memory(schedule, {2 * kGiB, 3 * kGiB}, false, beside, limits));  // HBM is elsewhere
  try {
    require_host_memory(schedule, {2 * kGiB, 3 * kGiB}, true, beside, limits);
    FAIL();
  } catch (const DoesNotFit& error) {
    // 2 + 3 GiB and 64 MiB beside them, of 3.5.
    EXPECT_NE(std::string(error.what()).find("64.00 MiB beside them"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("need 5.06 GiB"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("1.56 GiB too few"), std::string::npos) << error.what();
    // 3.5 GiB less 64 MiB and the 2 GiB of HBM.
    EXPECT_NE(std::string(error.what()).find("machine.dram = \"1472 MiB\""), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace penstock::exec
