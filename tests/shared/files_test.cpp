#include "shared/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "shared/error.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& output) {
  return error_text([&] { check_output_file(output); });
}

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OutputFiles, GoWhereAFileCanBe) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path() / "new.json"), "");
  EXPECT_EQ(refusal(folder.write("old.json", "x")), "");
  EXPECT_EQ(refusal("new.json"), "");  // in the folder that one stands in
}

TEST(OutputFiles, GoNowhereElse) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "x");
  EXPECT_NE(refusal("").find("name a file"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("names a folder"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "new/").find("names a folder"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "no" / "x.json").find("does not exist"), std::string::npos);
  EXPECT_NE(refusal(file / "x.json").find("does not exist"), std::string::npos);
  // A rename would put a file where the device was.
  EXPECT_NE(refusal("/dev/null").find("not a regular file"), std::string::npos);
}

TEST(OutputFiles, AreRefusedWhereTheyCouldNotBePutInPlace) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal(folder.path() / std::string(300, 'x')).find("File name too long"), std::string::npos);
  EXPECT_EQ(refusal(folder.path() / std::string(255, 'x')), "");  // its temporary's name is shorter
  EXPECT_NE(refusal("/proc/self/x.json").find("cannot be written: the folder /proc/self takes no new file: "),
            std::string::npos);
  EXPECT_EQ(entries(folder.path()), 0);  // nothing is left by asking
}

TEST(OutputFiles, AreRefusedWhereTheOldOneIsProtected) {
  const TemporaryFolder folder;
  if (::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const fs::path guarded = folder.write("guarded.json", "x");
  fs::permissions(guarded, fs::perms::owner_read);
  EXPECT_NE(refusal(guarded).find("it exists: Permission denied"), std::string::npos);
}

TEST(ReadTextFile, AMissingFileNamesTheOneThatWasMeant) {
  const TemporaryFolder folder;
  folder.write("quickstart.toml", "");
  folder.write("quickstart.json", "");
  const auto error = [&](const std::string& name) {
    return error_text([&] { read_text_file(folder.path() / name, 10); });
  };
  const std::string place = folder.path().string();
  EXPECT_EQ(error("quikstart.toml"), place +
                                         "/quikstart.toml: cannot be read: No such file or directory; did you mean " +
                                         place + "/quickstart.toml?");
  EXPECT_EQ(error("x.toml"), place + "/x.toml: cannot be read: No such file or directory; the folder " + place +
                                 " has no file of a similar name");
  EXPECT_EQ(error("no/x.toml"), place + "/no/x.toml: cannot be read: No such file or directory; the folder " + place +
                                    "/no does not exist");
}

TEST(WriteTextFile, FollowsLinksAndLeavesThem) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("results/old.json", "old");
  const fs::path link = folder.path() / "link.json", further = folder.path() / "further.json";
  fs::create_symlink("results/old.json", link);  // relative to the link's folder
  fs::create_symlink(link, further);
  write_text_file(further, "new");
  EXPECT_TRUE(fs::is_symlink(further));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(content(file), "new");
  // A link to nothing yet.
  fs::create_symlink("results/fresh.json", folder.path() / "ahead.json");
  write_text_file(folder.path() / "ahead.json", "first");
  EXPECT_EQ(content(folder.path() / "results/fresh.json"), "first");
  EXPECT_EQ(entries(folder.path() / "results"), 2);
  fs::create_symlink("nowhere/x.json", folder.path() / "astray.json");
  EXPECT_NE(refusal(folder.path() / "astray.json").find("nowhere does not exist"), std::string::npos);
  fs::create_symlink("b", folder.path() / "a");
  fs::create_symlink("a", folder.path() / "b");
  EXPECT_NE(refusal(folder.path() / "a").find("leads round in a circle"), std::string::npos);
}

TEST(WriteTextFile, LeavesTheOldFileAndNothingBesideIfItFails) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("old.json", "old");
  EXPECT_THROW(write_text_file(file / "x", "new"), InputError);
  EXPECT_THROW(write_text_file(folder.path(), "new"), InputError);
  EXPECT_EQ(content(file), "old");
  write_text_file(file, "new");
  EXPECT_EQ(content(file), "new");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(OutputFile, IsThereWhenCommittedAndNotBefore) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a.json", "old");
  {
    OutputFile file(path);
    file.write("half");
    EXPECT_EQ(content(path), "old");
  }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(entries(folder.path()), 1);
  OutputFile file(path);
  file.write("....tail");
  file.write_at(0, "head");
  file.commit();
  EXPECT_EQ(content(path), "headtail");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(OutputFile, TwoAtOnceLeaveOneWhole) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.json";
  OutputFile first(path), second(path);
  first.write("first, long");
  second.write("second");
  first.commit();
  EXPECT_EQ(content(path), "first, long");
  second.commit();
  EXPECT_EQ(content(path), "second");
  EXPECT_EQ(entries(folder.path()), 1);
}

TEST(OutputFile, HasTheRightsThatTheUmaskLeaves) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_text_file(folder.path() / "a.json", "x");
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path() / "a.json").permissions(), fs::perms(0640));
}

}  // namespace
}  // namespace penstock
