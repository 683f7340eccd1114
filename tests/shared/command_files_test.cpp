#include "shared/command_files.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A folder with a scenario, a folder of data and a checkpoint in it.
class CommandFilesTest : public testing::Test {
 protected:
  CommandFilesTest() {
    folder_.write("s.toml", "scenario");
    folder_.write("data/deep/text.txt", "text");
    folder_.write("ck/run.json", "{}");
    folder_.write("ck/model.safetensors", "weights");
  }
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  /// What `--out NAME` is refused for when the command reads s.toml, data and ck; empty: it is not.
  std::string refusal(const std::string& name) const { return refusal_of(at(name)); }
  std::string refusal_of(const fs::path& path) const {
    return error_text([&] {
      CommandFiles files;
      files.reads(std::array{at("s.toml"), at("data"), at("ck"), fs::path(), at("not there")});
      files.writes(path, "--out");
      files.check();
    });
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TemporaryFolder folder_;
};

TEST_F(CommandFilesTest, AnOutputOfItsOwnIsFine) {
  EXPECT_EQ(refusal("out.json"), "");
  EXPECT_EQ(refusal("not there"), "");  // an input that is none
  EXPECT_EQ(refusal("data.json"), "");  // beside the folder, not in it
  folder_.write("old.json", "x");
  EXPECT_EQ(refusal("old.json"), "");
  EXPECT_EQ(refusal("ck/../out.json"), "");
  EXPECT_TRUE(has(refusal("no/out.json"), "no does not exist"));
}

TEST_F(CommandFilesTest, AnInputIsNeverReplaced) {
  EXPECT_TRUE(has(refusal("s.toml"), "--out " + at("s.toml").string() + ": would replace what this command reads"));
  EXPECT_TRUE(has(refusal("./data/../s.toml"), "would replace"));
  fs::create_symlink("s.toml", at("link"));
  EXPECT_TRUE(has(refusal("link"), "would replace"));
  fs::create_hard_link(at("s.toml"), at("hard.toml"));
  EXPECT_TRUE(has(refusal("hard.toml"), "would replace"));
  fs::create_directory_symlink(folder_.path(), at("way"));
  EXPECT_TRUE(has(refusal("way/way/s.toml"), "would replace"));
}

TEST_F(CommandFilesTest, NothingIsPutIntoAFolderThatIsReadAsAWhole) {
  EXPECT_TRUE(has(refusal("data/out.json"), "lies in the folder " + at("data").string()));
  EXPECT_TRUE(has(refusal("data/deep/out.json"), "lies in the folder"));
  EXPECT_TRUE(has(refusal("ck/model.safetensors"), "would replace"));
  EXPECT_TRUE(has(refusal("ck/out.json"), "lies in the folder " + at("ck").string()));
  fs::create_directory_symlink("data/deep", at("inside"));  // a link to the middle of it
  EXPECT_TRUE(has(refusal("inside/out.json"), "lies in the folder"));
  fs::create_symlink("data/deep/new.json", at("ahead"));  // leads to nothing yet
  EXPECT_TRUE(has(refusal("ahead"), "lies in the folder"));
}

TEST_F(CommandFilesTest, WhatAFolderReachesByALinkIsReadToo) {
  // As in Hugging Face's cache, whose folders hold links to files elsewhere.
  folder_.write("blobs/0a1b", "weights");
  fs::create_symlink("../blobs/0a1b", at("data/shard.safetensors"));
  EXPECT_TRUE(has(refusal("blobs/0a1b"), "would replace what this command reads, " + at("data").string()));
  EXPECT_EQ(refusal("blobs/0a1c"), "");
}

TEST_F(CommandFilesTest, AReplacedFolderHoldsNoInput) {
  const auto refusal_to_replace = [this](const std::string& name, const std::string& instead_of) {
    return error_text([&] {
      CommandFiles files;
      files.reads(std::array{at("s.toml"), at("data"), at("ck")});
      files.replaces(at(name), "--save", at(instead_of));
      files.check();
    });
  };
  EXPECT_EQ(refusal_to_replace("new", "ck"), "");
  EXPECT_EQ(refusal_to_replace("new/", "ck"), "");
  EXPECT_EQ(refusal_to_replace("ck", "ck"), "");
  EXPECT_EQ(refusal_to_replace("data/../ck/", "ck"), "");
  EXPECT_TRUE(has(refusal_to_replace("ck", "other"), "would replace"));
  EXPECT_TRUE(has(refusal_to_replace("data", "ck"), "would replace"));
  EXPECT_TRUE(has(refusal_to_replace("data/deep", "ck"), "would replace"));
  EXPECT_TRUE(has(refusal_to_replace("data/new", "ck"), "lies in the folder"));
  EXPECT_TRUE(has(refusal_to_replace("ck/new", "ck"), "lies in the folder"));
  folder_.write("all/here", "x");
  fs::create_hard_link(at("s.toml"), at("all/s.toml"));
  EXPECT_TRUE(has(refusal_to_replace("all", "ck"), "would replace what this command reads, " + at("s.toml").string()));
}

TEST_F(CommandFilesTest, WhatAnOutputUsesBesideItIsTaken) {
  const auto refusal_beside = [this](const std::string& beside, const std::string& file) {
    return error_text([&] {
      CommandFiles files;
      files.reads(at("ck"));
      files.replaces(at("new"), "--save");
      files.uses(at(beside), "--save", "new");
      files.writes(at(file), "--out");
      files.check();
    });
  };
  EXPECT_EQ(refusal_beside("new.lock", "out"), "");
  EXPECT_TRUE(has(refusal_beside("new.lock", "new.lock"),
                  "--out " + at("new.lock").string() + ": would be written twice, also as " + at("new.lock").string() +
                      " (--save); name another place"));
  EXPECT_EQ(refusal_beside("ck", "out"), "--save new: " + at("ck").string() +
                                             ", which it needs, would replace what this command reads, " +
                                             at("ck").string() + "; name another place");
}

TEST_F(CommandFilesTest, NoOutputDestroysAnother) {
  const auto refusal_of_two = [this](const std::string& a, const std::string& b) {
    return error_text([&] {
      CommandFiles files;
      files.writes(at(a), "--first");
      files.writes(at(b), "--second");
      files.check();
    });
  };
  EXPECT_EQ(refusal_of_two("a", "b"), "");
  EXPECT_TRUE(has(refusal_of_two("a", "a"), "--second " + at("a").string() + ": would be written twice"));
  EXPECT_TRUE(has(refusal_of_two("a", "data/../a"), "written twice"));
  EXPECT_TRUE(has(refusal_of_two("A.json", "a.json"), "written twice"));  // one file where case does not count
  fs::create_symlink("target", at("l"));
  EXPECT_TRUE(has(refusal_of_two("l", "target"), "written twice"));
  folder_.write("x", "");
  fs::create_hard_link(at("x"), at("y"));
  EXPECT_TRUE(has(refusal_of_two("x", "y"), "written twice"));
}

TEST_F(CommandFilesTest, FilesIntoAFolderAreOutputsOneByOne) {
  const auto refusal_into = [this](const std::string& folder, const std::string& save, const std::string& file) {
    return error_text([&] {
      CommandFiles files;
      files.replaces(at(save), "--save");
      files.writes_into(at(folder), {"predicted.json", "run.json"}, "--compare");
      files.writes(at(file), "--timeline");
      files.check();
    });
  };
  EXPECT_EQ(refusal_into("new", "saved", "t.json"), "");
  EXPECT_EQ(refusal_into("new/and/newer", "saved", "t.json"), "");
  EXPECT_EQ(refusal_into("data", "saved", "data/t.json"), "");
  EXPECT_TRUE(has(refusal_into("data", "saved", "data/predicted.json"), "written twice"));
  EXPECT_TRUE(has(refusal_into("new", "new", "t.json"), "lies in " + at("new").string() + " (--save)"));
  EXPECT_TRUE(has(refusal_into("ck", "ck", "t.json"), "lies in"));
  EXPECT_TRUE(has(refusal_into("new", "new/run.json", "t.json"), "written twice"));
  EXPECT_TRUE(has(refusal_into("s.toml", "saved", "t.json"), "s.toml is none"));
  EXPECT_TRUE(has(refusal_into("s.toml/x", "saved", "t.json"), "s.toml is none"));
  fs::create_symlink("nowhere", at("astray"));
  EXPECT_TRUE(has(refusal_into("astray", "saved", "t.json"), "cannot be made a folder"));
  EXPECT_FALSE(fs::exists(at("new")));  // nothing is made by asking
  fs::create_directories(at("full/run.json"));
  EXPECT_TRUE(has(refusal_into("full", "saved", "t.json"), "names a folder"));
}

}  // namespace
}  // namespace penstock
