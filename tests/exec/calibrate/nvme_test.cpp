#include "exec/calibrate/nvme.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

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

TEST(RateOfBlocks, MedianOfSlicesAfterTheFirstBlocksInFlight) {
  // Two in flight, sorted ends 5 6 | 7 8 | 12 13 | 14 16 | 17: slices of two blocks from the end of the second one take
  // 8 - 6 = 2, 13 - 8 = 5, 16 - 13 = 3 seconds; the last block fills no slice. 2 x 30 bytes in the median of 3 s.
  const MeasuredRate rate = rate_of_blocks({6, 5, 8, 7, 13, 12, 14, 17, 16}, 30, 2, 2);
  EXPECT_DOUBLE_EQ(rate.per_second, 20);
  EXPECT_DOUBLE_EQ(rate.spread, 1);  // of three, the middle half is all: (5 - 2) / 3
}

TEST(MeasureNvme, HasEveryFigureAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  if (!does_direct_io(folder.path())) GTEST_SKIP() << "the file system of " << folder.path() << " does no direct I/O";
  if (std::filesystem::space(folder.path()).available < (std::uintmax_t{1} << 30))
    GTEST_SKIP() << folder.path() << " has less than 1 GiB free";
  const MeasuredNvme measured = measure_nvme(folder.path());
  const Nvme& drive = measured.drive;
  EXPECT_GE(drive.bytes, std::int64_t{1} << 30);
  EXPECT_LE(drive.bytes, static_cast<std::int64_t>(std::filesystem::space(folder.path()).capacity));
  EXPECT_GT(drive.write_bytes_per_second, 0);
  EXPECT_GT(drive.latency_seconds, 0);
  // Pages one by one are no faster than blocks, several in flight.
  EXPECT_GT(drive.read_bytes_per_second, 4096 / drive.latency_seconds);
  for (const char* figure : {"nvme read", "nvme write", "nvme latency"})
    EXPECT_GE(measured.spread.at(figure), 0) << figure;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
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
