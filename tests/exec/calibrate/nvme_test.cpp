#include "exec/calibrate/nvme.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "shared/error.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// What measure_nvme says about a folder that it refuses; empty if it does not.
std::string refusal(const std::filesystem::path& folder) {
  try {
    measure_nvme(folder);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool does_direct_io(const std::filesystem::path& folder) {
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0 || system.f_type == TMPFS_MAGIC) return false;
  const int file = ::open((folder / "probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (file >= 0) ::close(file);
  std::filesystem::remove(folder / "probe");
  return file >= 0;
}

// Of {1, 1, 1, 7} the median would say 100 bytes/s; 400 bytes in 10 s are 40.
TEST(LaterRate, CountsPausesAndOnlyTheLaterHalf) {
  EXPECT_DOUBLE_EQ(later_rate({1, 1, 1, 1, 3, 1, 1, 3}, 100), 50);
  EXPECT_DOUBLE_EQ(later_rate({1, 1, 1, 1, 1, 1, 1, 7}, 100), 40);
  EXPECT_DOUBLE_EQ(later_rate({2}, 100), 50);
}

// The first eighth takes 1 s a copy, the last quarter 4.
TEST(FasterAtFirst, ComparesTheFirstEighthWithTheLastQuarter) {
  EXPECT_DOUBLE_EQ(faster_at_first({1, 1, 1, 2, 2, 3, 4, 4}), 4);
}

const NvmeEffort kShort{
    .point_seconds = 0, .fill_seconds = 20, .turns_seconds = 0.1, .both_seconds = 0.1, .most_bytes = 512 << 20};

TEST(MeasureNvme, HasEveryFigureAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  if (!does_direct_io(folder.path())) GTEST_SKIP() << "the file system of " << folder.path() << " does no direct I/O";
  if (std::filesystem::space(folder.path()).available < (std::uintmax_t{1} << 30))
    GTEST_SKIP() << folder.path() << " has less than 1 GiB free";
  const MeasuredNvme measured = measure_nvme(folder.path(), kShort);
  const Nvme& drive = measured.drive;
  EXPECT_GE(drive.bytes, std::int64_t{1} << 30);
  EXPECT_LE(drive.bytes, static_cast<std::int64_t>(std::filesystem::space(folder.path()).capacity));
  EXPECT_GT(drive.write_bytes_per_second, 0);
  EXPECT_GT(drive.latency_seconds, 0);
  EXPECT_GT(drive.both_read_bytes_per_second, 0);
  EXPECT_GT(drive.both_write_bytes_per_second, 0);
  ASSERT_EQ(drive.points.size(), 16u);
  EXPECT_TRUE(std::any_of(drive.points.begin(), drive.points.end(), [&](const NvmePoint& point) {
    return point.transfer_bytes == drive.transfer_bytes && point.depth == drive.depth;
  }));
  // Pages one by one are no faster than blocks, several in flight.
  EXPECT_GT(drive.read_bytes_per_second, 4096 / drive.latency_seconds);
  for (const char* figure : {"nvme read", "nvme write", "nvme latency"})
    EXPECT_GE(measured.spread.at(figure), 0) << figure;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeasureNvme, OnceMoreKeepsHowCopiesAreCut) {
  const TemporaryFolder folder;
  if (!does_direct_io(folder.path())) GTEST_SKIP() << "the file system of " << folder.path() << " does no direct I/O";
  if (std::filesystem::space(folder.path()).available < (std::uintmax_t{1} << 30))
    GTEST_SKIP() << folder.path() << " has less than 1 GiB free";
  Nvme before;
  before.transfer_bytes = 128 << 10;
  before.depth = 3;
  before.points = {{128 << 10, 3, 7, 11}};
  NvmeEffort least = kShort;
  least.most_bytes = 128 << 20;
  const Nvme drive = measure_nvme(folder.path(), least, &before).drive;
  EXPECT_EQ(drive.transfer_bytes, 128 << 10);
  EXPECT_EQ(drive.depth, 3);
  ASSERT_EQ(drive.points.size(), 1u);
  EXPECT_EQ(drive.points[0].read_bytes_per_second, 7);
  EXPECT_GT(drive.read_bytes_per_second, 0);
  EXPECT_GT(drive.both_write_bytes_per_second, 0);
}

TEST(MeasureNvme, RefusesWhatIsNoFolderToWriteIn) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "missing";
  EXPECT_EQ(refusal(missing), "--nvme " + missing.string() + ": No such file or directory; name a folder on the drive");
  const auto file = folder.write("file", "x");
  EXPECT_EQ(refusal(file), "--nvme " + file.string() + ": is not a folder; name one on the drive");
}

TEST(MeasureNvme, RefusesAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write anywhere";
  ::chmod(folder.path().c_str(), 0500);
  EXPECT_NE(refusal(folder.path()).find("cannot be written: Permission denied"), std::string::npos);
  ::chmod(folder.path().c_str(), 0700);
}

TEST(MeasureNvme, RefusesFileSystemsThatAreFullOrInMemory) {
  EXPECT_EQ(refusal("/proc"), "--nvme /proc: has 0 B free; measuring takes 1.00 GiB");
  struct statfs system {};
  if (::statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC) GTEST_SKIP() << "/dev/shm is no tmpfs";
  EXPECT_EQ(refusal("/dev/shm"), "--nvme /dev/shm: lies in memory (tmpfs); name a folder on the drive");
}

}  // namespace
}  // namespace penstock::exec
