#include "exec/data/text_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

/// "2 hidden, first .git" for each reason, in the order in which they were met.
std::vector<std::string> passed_over(const DataText& text) {
  std::vector<std::string> all;
  for (const PassedOver& what : text.passed_over)
    all.push_back(fmt::format("{} {}, first {}", what.count, what.reason, what.first));
  return all;
}

using Words = std::vector<std::string>;

/// Root reads everything; for as long as this lives, it is somebody else.
class OrdinaryUser {
 public:
  OrdinaryUser() : was_root_(::geteuid() == 0) {
    if (was_root_ && ::seteuid(65534) != 0) ADD_FAILURE() << "cannot become another user";
  }
  ~OrdinaryUser() {
    if (was_root_ && ::seteuid(0) != 0) ADD_FAILURE() << "cannot become root again";
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  bool was_root_;
};

class TextFiles : public testing::Test {
 protected:
  fs::path write(const std::string& name, std::string_view text) const { return folder_.write("data/" + name, text); }
  fs::path path() const { return folder_.path() / "data"; }
  fs::path path(const std::string& name) const { return path() / name; }
  void grow(const fs::path& file, std::uintmax_t bytes) const { fs::resize_file(file, bytes); }  // sparse
  std::string error(std::int64_t most_bytes = kMaxDataBytes) const {
    return error_text([&] { read_data(path(), most_bytes); });
  }

  TemporaryFolder folder_;
};

TEST_F(TextFiles, AreTakenInTheOrderOfTheirPathsElementByElement) {
  for (const std::string name : {"b.txt", "a/x.md", "a/B", "a.txt", "a-b", "Z", "é", "a/x/deep", "10", "9"})
    write(name, name + " ");
  const DataText text = read_data(path());
  // Bytes: digits, capitals, small letters, others. All of folder a before a-b and a.txt, though '-' and '.' are below
  // '/'.
  EXPECT_EQ(text.bytes, "10 9 Z a/B a/x/deep a/x.md a-b a.txt b.txt é ");
  EXPECT_EQ(text.files, 10);
  EXPECT_EQ(passed_over(text), Words{});
}

TEST_F(TextFiles, BytesAreTakenAsTheyAre) {
  const std::string bytes = "\xef\xbb\xbfmark\r\n\xfc latin\x1a";
  write("a", bytes);
  EXPECT_EQ(read_data(path()).bytes, bytes);
  EXPECT_EQ(read_data(path("a")).bytes, bytes);
}

TEST_F(TextFiles, WhatIsPassedOverIsCountedByReasonWithTheFirst) {
  write("text", "text");
  write("sub/b.txt", "\xff\xfe" + "h\0i\0"s);
  write("sub/c.txt", "\xfe\xff" + "\0h\0i"s);
  write("corpus.txt", "\x1f\x8b\x08" + "\0\0"s);  // a .gz under another name
  write("empty", "");
  write(".git/config", "text");
  write(".hidden", "text");
  write("sub/.cache/x", "text");
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "text");
  EXPECT_EQ(passed_over(text), (Words{"3 hidden, first .git", "1 gzip-compressed, first corpus.txt",
                                      "1 empty, first empty", "2 UTF-16 text, first sub/b.txt"}));
  EXPECT_EQ(in_words(text.passed_over[0]), "passed over 3, first .git: hidden");
  EXPECT_EQ(in_words(text.passed_over[1]),
            fmt::format("passed over corpus.txt: gzip-compressed (for text: gunzip -c {0} > {0}.txt)",
                        path("corpus.txt").string()));
  EXPECT_EQ(
      in_words(text.passed_over[3]),
      fmt::format("passed over 2, first sub/b.txt: UTF-16 text (for text: iconv -f UTF-16 -t UTF-8 {0} > {0}.txt)",
                  path("sub/b.txt").string()));
}

TEST_F(TextFiles, BinaryFileCountsAgainstNoLimit) {
  write("a.txt", "some text");
  grow(write("model.bin", ""), std::uintmax_t{5} << 30);
  grow(write("later.bin", "text at first" + std::string(1 << 20, 'x')), std::uintmax_t{6} << 30);
  grow(write("weights.safetensors", "\x40\0\0\0\0\0\0\0{}"s), std::uintmax_t{7} << 40);
  write("z.txt", ", and more");
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "some text, and more");
  EXPECT_EQ(passed_over(text),
            (Words{"1 text at first, then binary (zero bytes), first later.bin",
                   "1 binary (zero bytes), first model.bin", "1 tensors (safetensors), first weights.safetensors"}));
}

TEST_F(TextFiles, TextThatTurnsBinaryIsNotTakenAtAll) {
  write("a", "before ");
  write("b", std::string(1 << 20, 'x') + "\0binary"s);
  write("c", std::string((64 << 10) - 1, 'x') + '\0');  // the last byte that is judged
  write("d", std::string(64 << 10, 'x') + '\0');        // the first behind it
  write("e", "behind");
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "before behind");
  EXPECT_EQ(text.files, 2);
  EXPECT_EQ(passed_over(text),
            (Words{"2 text at first, then binary (zero bytes), first b", "1 binary (zero bytes), first c"}));
}

TEST_F(TextFiles, TooMuchTextNamesTheLargestFile) {
  write("a", std::string(300, 'a'));
  write("b big", std::string(500, 'b'));
  write("c", std::string(200, 'c'));
  EXPECT_EQ(read_data(path(), 1000).bytes.size(), 1000u);
  EXPECT_EQ(error(999),
            fmt::format("{0}: more than 999 bytes of text, the most that data may have; the largest file so "
                        "far, '{0}/b big', has 500. Name less, or a part of it: head -c 999 '{0}/b big' > "
                        "'b big.part.txt'",
                        path().string()));
  EXPECT_MENTIONS(error(499), "b big', has 500");
  EXPECT_MENTIONS(error(0), "/a, has 300");
  EXPECT_MENTIONS(error_text([&] { read_data(path("c"), 199); }), "/c, has 200");
  EXPECT_EQ(read_data(path("c"), 200).bytes.size(), 200u);
}

TEST_F(TextFiles, WhetherTextIsTooMuchIsKnownOnlyBehindIt) {
  // Larger than the room, and binary behind the first bytes: passed over.
  write("a", std::string(100'000, 'a') + '\0');
  write("b", "text");
  EXPECT_EQ(read_data(path(), 200'000).bytes, "text");
  EXPECT_EQ(read_data(path(), 100'000).bytes, "text");
  EXPECT_EQ(read_data(path(), 90'000).bytes, "text");  // its zero byte lies in the same piece
}

TEST_F(TextFiles, LinksToFilesAreFollowedAndLinksToFoldersAreNot) {
  folder_.write("outside.txt", "outside ");
  folder_.write("elsewhere/x.txt", "x ");
  write("real/y.txt", "y ");
  fs::create_symlink("../outside.txt", path("a.txt"));
  fs::create_symlink("../elsewhere", path("folder"));
  fs::create_symlink("..", path("parent"));
  fs::create_symlink(".", path("self"));
  fs::create_symlink("nowhere", path("dangling"));
  fs::create_symlink("circle", path("circle"));
  fs::create_symlink("/dev/zero", path("device"));
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "outside y ");
  EXPECT_EQ(passed_over(text), (Words{"2 a link to nothing, first circle", "1 not a regular file, first device",
                                      "3 a link to a folder, first folder"}));
  // What is named itself is followed.
  EXPECT_EQ(read_data(path("folder")).bytes, "x ");
  EXPECT_EQ(read_data(path("a.txt")).bytes, "outside ");
}

TEST_F(TextFiles, OneFileUnderSeveralNamesCountsOnce) {
  write("m.txt", "once ");
  fs::create_symlink("m.txt", path("a.txt"));  // before it
  fs::create_symlink("a.txt", path("z.txt"));  // behind it, by two links
  fs::create_hard_link(path("m.txt"), path("n.txt"));
  write("same content.txt", "once ");  // another file
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "once once ");
  EXPECT_EQ(passed_over(text), (Words{"3 another name of a file that is taken already, first m.txt"}));
}

TEST_F(TextFiles, HardLinksOutOfTheFolderAreNothingSpecial) {
  write("a", "a");
  fs::create_hard_link(path("a"), folder_.path() / "copy");
  EXPECT_EQ(read_data(path()).bytes, "a");
}

TEST_F(TextFiles, PipesAndSocketsAreNeverOpened) {
  write("text", "text");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", path("to pipe"));
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "text");
  EXPECT_EQ(passed_over(text), (Words{"2 not a regular file, first pipe"}));
  EXPECT_MENTIONS(error_text([&] { read_data(path("pipe")); }), "is not a regular file; data is a text file");
  EXPECT_MENTIONS(error_text([&] { read_data("/dev/zero"); }), "is not a regular file");
}

TEST_F(TextFiles, WhatMayNotBeReadIsSaid) {
  write("a", "a");
  write("b.txt", "secret");
  write("closed/c.txt", "secret");
  write("blind/d.txt", "secret");
  ASSERT_EQ(::chmod(path("b.txt").c_str(), 0), 0);
  ASSERT_EQ(::chmod(path("closed").c_str(), 0), 0);
  ASSERT_EQ(::chmod(path("blind").c_str(), 0444), 0);
  {
    const OrdinaryUser user;
    const DataText text = read_data(path());
    EXPECT_EQ(text.bytes, "a");
    EXPECT_EQ(passed_over(text), (Words{"2 unreadable (Permission denied), first b.txt",
                                        "1 a folder that is unreadable (Permission denied), first closed"}));
    EXPECT_MENTIONS(error_text([&] { read_data(path("b.txt")); }), "is unreadable (Permission denied)");
    EXPECT_MENTIONS(error_text([&] { read_data(path("closed")); }), "cannot be read as data: Permission denied");
    EXPECT_MENTIONS(error_text([&] { read_data(path("closed/c.txt")); }), "Permission denied");
  }
  ASSERT_EQ(::chmod(path("closed").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path("blind").c_str(), 0700), 0);
}

TEST_F(TextFiles, FolderWithoutTextIsRefusedWithEveryReason) {
  fs::create_directories(path("sub/sub"));
  EXPECT_EQ(error(), path().string() + ": has no text to take tokens from");
  write("a.zip", "PK\x03\x04" + std::string(40, '\0'));
  write("b.bin", std::string(1, '\0'));
  write("c.bin", std::string(2, '\0'));
  write(".x", "text");
  EXPECT_EQ(error(),
            fmt::format("{0}: has no text to take tokens from; passed over .x: hidden; passed over a.zip: a zip "
                        "archive (as docx, xlsx, epub, npz and torch files are) (for text: unzip {0}/a.zip); "
                        "passed over 2, first b.bin: binary (zero bytes)",
                        path().string()));
}

TEST_F(TextFiles, FileThatIsNoTextIsRefusedWithWhatMakesTextOfIt) {
  const auto refused = [&](const std::string& name, std::string_view bytes) {
    const fs::path file = write(name, bytes);
    return error_text([&] { read_data(file); });
  };
  EXPECT_EQ(
      refused("corpus.jsonl.gz", "\x1f\x8b\x08" + "\0"s),
      fmt::format(
          "{0}: is gzip-compressed; data is a text file, a folder with such, a file of tokens (of raw uint16 ids with "
          "kind = \"nanogpt\"), or \"random\". For text of "
          "it: gunzip -c {0} > {0}.txt",
          path("corpus.jsonl.gz").string()));
  EXPECT_MENTIONS(
      refused("from windows.txt", "\xff\xfe" + "h\0i\0"s),
      fmt::format("iconv -f UTF-16 -t UTF-8 '{0}/from windows.txt' > '{0}/from windows.txt.txt'", path().string()));
  EXPECT_MENTIONS(refused("x", "h\0i\0 \0m\0u\0m\0"s), "iconv -f UTF-16LE");
  EXPECT_MENTIONS(refused("book.pdf", "%PDF-1.4\n"), "is a PDF");
  EXPECT_MENTIONS(refused("lfs", "version https://git-lfs.github.com/spec/v1\n"), "git lfs pull");
  EXPECT_MENTIONS(refused("empty", ""), "is empty");
  EXPECT_MENTIONS(refused("late", std::string(100'000, 'x') + '\0'), "is text at first, then binary");
  EXPECT_MENTIONS(error_text([&] { read_data(path("boook.pdf")); }), "did you mean");
}

TEST_F(TextFiles, NamesThatCannotBePrintedAreEscaped) {
  write("a\nb\x1b[2J.txt", "\xff\xfe");
  write("text", "text");
  const DataText text = read_data(path());
  ASSERT_EQ(text.passed_over.size(), 1u);
  EXPECT_EQ(text.passed_over[0].first, "$'a\\nb\\x1b[2J.txt'");
  EXPECT_MENTIONS(text.passed_over[0].command, "/a\\nb\\x1b[2J.txt' > ");
  EXPECT_EQ(in_words(text.passed_over[0]).find('\n'), std::string::npos);
  const fs::path odd = path("caf\xe9\n");
  EXPECT_MENTIONS(error_text([&] { read_data(odd); }), "/caf\\xe9\\n'");
}

TEST_F(TextFiles, ManyFilesGiveOneLineForEachReason) {
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string name = fmt::format("{:03}", i);
    write(name, i % 3 == 0 ? "\0"s : i % 3 == 1 ? "" : name);
    if (i % 3 == 2) expected += name;
  }
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, expected);
  EXPECT_EQ(passed_over(text), (Words{"100 binary (zero bytes), first 000", "100 empty, first 001"}));
}

TEST_F(TextFiles, DeepFoldersAreReadAsFarAsPathsReach) {
  std::string name;
  for (int i = 0; i < 300; ++i) name += "d/";
  write(name + "x", "deep");
  EXPECT_EQ(read_data(path()).bytes, "deep");
  // Beyond the longest path that the system takes.
  fs::path at = path();
  const fs::path before = fs::current_path();
  fs::current_path(at / name);
  for (int i = 0; i < 30; ++i) {
    const std::string longest(200, 'e');
    fs::create_directory(longest);
    fs::current_path(longest);
  }
  std::ofstream("y") << "too deep";
  fs::current_path(before);
  const DataText text = read_data(path());
  EXPECT_EQ(text.bytes, "deep");
  ASSERT_EQ(text.passed_over.size(), 1u);
  EXPECT_EQ(text.passed_over[0].reason, "a folder that is unreadable (File name too long)");
}

TEST_F(TextFiles, FilesThatSayThatTheyAreEmptyAreNotOpened) {
  if (!fs::exists("/proc/self/fdinfo")) GTEST_SKIP() << "no /proc";
  const std::string text = error_text([] { read_data("/proc/self/net"); });
  EXPECT_MENTIONS(text, "has no text to take tokens from; ");
  EXPECT_MENTIONS(text, ": empty");
}

TEST_F(TextFiles, FileThatGrowsWhileItIsReadIsRefused) {
  write("small", "text");
  const fs::path log = write("log", std::string(4 << 20, 'x'));
  std::string text;
  {
    // Appends as fast as it can, until a reading has met it.
    const std::jthread writer([&](const std::stop_token& stop) {
      std::ofstream file(log, std::ios::app);
      while (!stop.stop_requested()) file << 'y' << std::flush;
    });
    while (text.empty()) text = error();
  }
  EXPECT_EQ(text, log.string() + ": changed while it was read; run again when nothing writes there");
}

TEST_F(TextFiles, SmallFilesMakeUpASequenceTogether) {
  for (int i = 0; i < 64; ++i) write(fmt::format("{:02}", i), "x");
  EXPECT_EQ(read_data(path()).bytes, std::string(64, 'x'));
}

TEST_F(TextFiles, DefaultDataIsTheNearestReadmeAndItsDocs) {
  const TemporaryFolder folder;
  folder.write("README.md", "readme ");
  folder.write("docs/b.md", "b ");
  folder.write("docs/a.md", "a ");
  folder.write("docs/c.txt", "c ");
  folder.write("docs/d.md", "\xff\xfe" + "d\0"s);
  folder.write("docs/sub/e.md", "e ");
  const auto scenario = folder.write("scenarios/deep/x.toml", "");
  const DataText text = read_default_data(scenario.parent_path());
  EXPECT_EQ(text.bytes, "readme a b ");
  EXPECT_EQ(text.place, "README.md and docs of " + folder.path().string() + ", the default data");
  EXPECT_EQ(passed_over(text), (Words{"1 UTF-16 text, first docs/d.md"}));
}

TEST_F(TextFiles, DefaultDataThatIsNotThereIsSaid) {
  if (fs::exists("/README.md")) GTEST_SKIP() << "/README.md is there";
  EXPECT_MENTIONS(error_text([] { read_default_data("/proc"); }), "no folder at or above has a README.md");
}

}  // namespace
}  // namespace penstock::exec
