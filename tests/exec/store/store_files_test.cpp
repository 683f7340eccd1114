// Folders in which no store can be are refused with a sentence, and nothing is left behind.
#include "exec/store/store_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "shared/error.h"
#include "tests/exec/store/refused_calls.h"
#include "tests/exec/store/small_store.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBytes = std::int64_t{1} << 20;

class StoreFilesTest : public testing::Test {
 protected:
  StorePlace place() const { return store_place({folder_.path()}); }
  static std::string refusal(const StorePlace& place, std::int64_t bytes = kBytes) {
    return failure_text([&] { const StoreFiles files(place, bytes); });
  }
  fs::path file() const { return folder_.path() / kStoreName; }

  TemporaryFolder folder_;
};

TEST_F(StoreFilesTest, AFileIsMadeTakenWholeAndGoneWithTheStore) {
  {
    const StoreFiles files(place(), kBytes);
    EXPECT_EQ(fs::file_size(file()), static_cast<std::uintmax_t>(kDataOffset + kBytes));
    EXPECT_TRUE(files.notes().empty());
  }
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, AFolderThatIsMissingOrNoneIsRefused) {
  EXPECT_MENTIONS(refusal(store_place({folder_.path() / "none"})), "none: No such file or directory; name a folder");
  folder_.write("text", "x");
  EXPECT_MENTIONS(refusal(store_place({folder_.path() / "text"})), "text: is not a folder");
}

TEST_F(StoreFilesTest, AFolderInMemoryIsRefused) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  StorePlace there = store_place({"/dev/shm"});
  there.direct = true;
  EXPECT_MENTIONS(refusal(there), "machine.nvme_path /dev/shm: lies in memory (tmpfs)");
}

TEST_F(StoreFilesTest, AFolderThatCannotBeWrittenIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_MENTIONS(refusal(place()), "cannot be written: Permission denied");
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

TEST_F(StoreFilesTest, ADriveThatIsTooSmallIsRefusedWithWhatIsMissing) {
  EXPECT_THROW(StoreFiles(place(), std::int64_t{1} << 55), DoesNotFit);
  EXPECT_MENTIONS(refusal(place(), std::int64_t{1} << 55), "too few");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, AFolderThatAnotherRunUsesIsRefused) {
  const StoreFiles files(place(), kBytes);
  EXPECT_MENTIONS(refusal(place()), "in use by another run (process " + std::to_string(::getpid()));
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(StoreFilesTest, AFolderThatIsNamedTwiceIsRefused) {
  EXPECT_MENTIONS(refusal(store_place({folder_.path(), folder_.path() / "."})), "is named twice");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, ALinkToAFolderIsThatFolder) {
  fs::create_directory(folder_.path() / "a");
  fs::create_directory_symlink(folder_.path() / "a", folder_.path() / "b");
  EXPECT_MENTIONS(refusal(store_place({folder_.path() / "a", folder_.path() / "b"})),
                  "b: is named twice (as " + (folder_.path() / "a").string() + ")");
  EXPECT_TRUE(fs::is_empty(folder_.path() / "a"));
}

TEST_F(StoreFilesTest, OneFolderOfSeveralThatIsMissingLeavesNothingInTheOthers) {
  fs::create_directory(folder_.path() / "a");
  EXPECT_MENTIONS(refusal(store_place({folder_.path() / "a", folder_.path() / "none"})), "none: No such file");
  EXPECT_TRUE(fs::is_empty(folder_.path() / "a"));
}

TEST_F(StoreFilesTest, FoldersOnOneFileSystemAreSaidAndTheirRoomCountsOnce) {
  for (const char* name : {"a", "b"}) fs::create_directory(folder_.path() / name);
  const StorePlace both = store_place({folder_.path() / "a", folder_.path() / "b"});
  // Others may write meanwhile; twice as much would be counted otherwise.
  EXPECT_LT(static_cast<double>(free_for_store(both)), 1.5 * static_cast<double>(free_for_store(place())));
  const StoreFiles files(both, kBytes);
  ASSERT_EQ(files.notes().size(), 1u);
  EXPECT_MENTIONS(files.notes()[0], "lie on one file system; two folders there are no faster than one");
}

TEST_F(StoreFilesTest, AnotherFileOfThatNameStays) {
  folder_.write(kStoreName, "my diary");
  EXPECT_MENTIONS(refusal(place()), "is not a store of penstock-exec; move it away");
  EXPECT_EQ(fs::file_size(file()), 8u);
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_NE(refusal(place()), "");
  EXPECT_TRUE(fs::is_directory(file()));
  fs::remove(file());
  fs::create_symlink("elsewhere", file());
  EXPECT_NE(refusal(place()), "");
  EXPECT_FALSE(fs::exists(folder_.path() / "elsewhere"));
}

/// Leaves a store behind as a run does that is killed.
void leave_store(const StorePlace& place) {
  const pid_t child = ::fork();
  if (child == 0) {
    const StoreFiles files(place, kBytes);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST_F(StoreFilesTest, AStoreOfAKilledRunIsTakenAndSaidToBeOfNoCheckpoint) {
  StorePlace before = place();
  before.from = "step 12 of ck";
  leave_store(before);
  ASSERT_TRUE(fs::exists(file()));
  {
    const StoreFiles files(place(), kBytes / 2);
    ASSERT_EQ(files.notes().size(), 1u);
    EXPECT_MENTIONS(files.notes()[0], "its states began as step 12 of ck and are of no checkpoint");
    EXPECT_EQ(fs::file_size(file()), static_cast<std::uintmax_t>(kDataOffset + kBytes / 2));
  }
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, TheStoreOfAnotherScheduleIsRefusedAndStays) {
  leave_store(place());
  StorePlace other = place();
  other.schedule = "77aa";
  EXPECT_MENTIONS(refusal(other), "is of another schedule (5f0c, this one is 77aa)");
  EXPECT_MENTIONS(refusal(other), "remove it, or name another folder");
  EXPECT_TRUE(fs::exists(file()));
  // A run that goes on from a checkpoint needs nothing of it, and may be planned otherwise than the one before.
  other.resumed = true;
  const StoreFiles files(other, kBytes);
  EXPECT_EQ(files.notes().size(), 1u);
}

TEST_F(StoreFilesTest, WhereTheFileSystemSetsNoPlacesAsideZerosTakeThem) {
  const int code =
      in_child([] { return refuse_call(SYS_fallocate, EOPNOTSUPP); },
               [&] {
                 const StoreFiles files(place(), kBytes + kStoreBlock);
                 struct stat status {};
                 ::stat(file().c_str(), &status);
                 const auto bytes = kDataOffset + kBytes + kStoreBlock;
                 if (status.st_size != bytes || status.st_blocks * 512 < bytes) return 2;
                 return files.notes().size() == 1 &&
                                files.notes()[0].ends_with("sets no places aside, so 2.00 MiB of zeros were written")
                            ? 0
                            : 3;
               });
  if (code == kNoFilter) GTEST_SKIP() << "no filter may be set here";
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, ALimitOfAProcessIsNoLackOfRoom) {
  const auto limit = [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{1 << 20, RLIM_INFINITY};
    return ::setrlimit(RLIMIT_FSIZE, &most) == 0;
  };
  EXPECT_EQ(in_child(limit,
                     [&] {
                       try {
                         const StoreFiles files(place(), kBytes);
                       } catch (const DoesNotFit& error) {
                         return std::string(error.what())
                                        .ends_with(" are free: a process may write files of 1.00 MiB here (ulimit -f)")
                                    ? 0
                                    : 2;
                       }
                       return 3;
                     }),
            0);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreFilesTest, WhatTookItsNameStays) {
  {
    const StoreFiles files(place(), kBytes);
    fs::remove(file());
    folder_.write(kStoreName, "another's");
  }
  EXPECT_EQ(fs::file_size(file()), 9u);
}

TEST_F(StoreFilesTest, WhatIsWrittenBesideItIsNotFreeForIt) {
  constexpr std::int64_t kBeside = std::int64_t{1} << 30;
  const std::int64_t all = free_for_store(place());
  if (all < 2 * kBeside) GTEST_SKIP() << "little is free here";
  const WrittenBeside here[] = {{folder_.path() / "not/yet/there", kBeside}}, elsewhere[] = {{"/proc/none", kBeside}};
  // Others may write meanwhile.
  EXPECT_NEAR(static_cast<double>(free_for_store(place(), here)), static_cast<double>(all - kBeside), kBeside / 2.0);
  EXPECT_NEAR(static_cast<double>(free_for_store(place(), elsewhere)), static_cast<double>(all), kBeside / 2.0);
  const WrittenBeside more[] = {{folder_.path(), 2 * all}};
  EXPECT_EQ(free_for_store(place(), more), 0);
}

TEST_F(StoreFilesTest, WhatIsFreeCountsTheStoreOfAKilledRun) {
  const std::int64_t before = free_for_store(place());
  EXPECT_GT(before, 0);
  EXPECT_MENTIONS(failure_text([&] { free_for_store(store_place({folder_.path() / "none"})); }), "No such file");
}

}  // namespace
}  // namespace penstock::exec
