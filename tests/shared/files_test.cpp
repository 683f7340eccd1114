#include "shared/files.h"

#include <gtest/gtest.h>

#include <array>
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

std::string refusal(const fs::path& output, std::span<const fs::path> inputs = {}) {
  return error_text([&] { check_output_file(output, inputs); });
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

TEST(OutputFiles, NeverReplaceAnInput) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("scenario.toml", "x");
  fs::create_symlink(file, folder.path() / "link.toml");
  const std::array<fs::path, 3> inputs{fs::path(), file, folder.path() / "not there yet"};
  EXPECT_NE(refusal(file, inputs).find("name another file"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "link.toml", inputs).find("name another file"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / "not there yet", inputs).find("name another file"), std::string::npos);
  EXPECT_EQ(refusal(folder.path() / "other.toml", inputs), "");
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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "results"), fs::directory_iterator()), 2);
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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace penstock
