// What `penstock-exec run` trains on, and what it says of the rest.
#include <sys/stat.h>

#include "tests/exec/program/program_fixture.h"

namespace penstock::exec {
namespace {

using namespace std::string_literals;

constexpr const char* kWords = "In the beginning was the word, and it was repeated. ";

class DataTest : public ProgramTest {
 protected:
  DataTest() {
    std::string text;
    for (int i = 0; i < 20; ++i) text += kWords;
    folder_.write("data/text.txt", text);
    folder_.write("one.txt", text);
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  static std::string on(const std::string& data) {
    return "run s.toml --steps 2 --set policy.name=megatrain --set data.file=" + data;
  }
};

TEST_F(DataTest, FolderIsTrainedOnAsItsTextWhateverLiesBesideIt) {
  const nlohmann::json alone = json(on("one.txt") + " --json");
  EXPECT_EQ(alone["data"]["passed_over"].size(), 0u);
  folder_.write("data/from-windows.txt", "\xff\xfe" + "h\0i\0"s);
  folder_.write("data/.git/HEAD", "ref");
  folder_.write("data/.ipynb_checkpoints/a", "text");
  folder_.write("data/model.bin", "");
  fs::resize_file(path("data/model.bin"), std::uintmax_t{5} << 30);
  folder_.write("data/notes.txt", "\x1f\x8b\x08 renamed");
  fs::create_symlink("nowhere", path("data/shard"));
  ASSERT_EQ(::mkfifo(path("data/pipe").c_str(), 0600), 0);
  const nlohmann::json beside = json(on("data") + " --json");
  EXPECT_EQ(beside["steps"], alone["steps"]);
  EXPECT_EQ(beside["data"]["checksum"], alone["data"]["checksum"]);
  EXPECT_EQ(beside["data"]["description"], "data (1040 bytes in 1 file)");
  const nlohmann::json& passed_over = beside["data"]["passed_over"];
  ASSERT_EQ(passed_over.size(), 6u);
  EXPECT_EQ(passed_over[0], (nlohmann::json{{"reason", "hidden"}, {"count", 2}, {"first", ".git"}, {"command", ""}}));
  EXPECT_EQ(passed_over[1], (nlohmann::json{{"reason", "UTF-16 text"},
                                            {"count", 1},
                                            {"first", "from-windows.txt"},
                                            {"command",
                                             "iconv -f UTF-16 -t UTF-8 data/from-windows.txt > "
                                             "data/from-windows.txt.txt"}}));
  const std::string out = run(on("data")).out;
  for (const char* line :
       {"; data: data (1040 bytes in 1 file)\n", "\npassed over 2, first .git: hidden\n",
        "\npassed over from-windows.txt: UTF-16 text (for text: iconv ",
        "\npassed over model.bin: binary (zero bytes)\n", "\npassed over notes.txt: gzip-compressed (for text: gunzip ",
        "\npassed over pipe: not a regular file\n", "\npassed over shard: a link to nothing\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
    EXPECT_LT(out.find(line), out.find("\nstep     1 ")) << line << out;  // before training
  }
}

TEST_F(DataTest, TextMadeByTheCommandIsTrainedOn) {
  folder_.write("data/text.txt", "");
  folder_.write("data/w.txt", "\xff\xfe");
  std::ofstream file(path("data/w.txt"), std::ios::binary | std::ios::app);
  for (int i = 0; i < 20; ++i)
    for (const char c : std::string(kWords)) file << c << '\0';
  file.close();
  expect_error(on("data"), 2, "passed over w.txt: UTF-16 text (for text: iconv");
  expect_error(on("data/w.txt"), 2, "data/w.txt: is UTF-16 text; data is a text file");
  const std::string command =
      "cd '" + folder_.path().string() + "' && iconv -f UTF-16 -t UTF-8 data/w.txt > data/w.txt.txt";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no iconv";
  EXPECT_EQ(json(on("data") + " --json")["steps"], json(on("one.txt") + " --json")["steps"]);
}

TEST_F(DataTest, WhatIsNoTextIsRefused) {
  folder_.write("a.gz", "\x1f\x8b\x08 and more");
  folder_.write("nothing/.hidden", "text");
  fs::create_directory(path("empty"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(
      on("a.gz"), 2,
      "a.gz: is gzip-compressed; data is a text file, a folder with such, a file of tokens (of raw uint16 ids with "
      "kind = \"nanogpt\"), or \"random\". For text");
  expect_error(on("nothing"), 2, "nothing: has no text to take tokens from; passed over .hidden: hidden\n");
  expect_error(on("empty"), 2, "empty: has no text to take tokens from\n");
  expect_error(on("pipe"), 2, "pipe: is not a regular file");
  expect_error(on("corpus/random"), 2, "does not exist");
}

TEST_F(DataTest, FileNamedRandomIsSaid) {
  EXPECT_NE(run(on("random")).out.find("; data: random token ids\n"), std::string::npos);
  fs::copy_file(path("one.txt"), path("random"));
  EXPECT_NE(
      run(on("random")).out.find("; data: random, which is there, so that \"random\" does not mean random ids (1040"),
      std::string::npos);
}

}  // namespace
}  // namespace penstock::exec
