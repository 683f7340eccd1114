// Files of tokens with documents and masks, trained on in packed rows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shared/random.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class PackedProgramTest : public ProgramTest {
 protected:
  PackedProgramTest() {
    // Seven rows of 32 or so: an epoch ends within the second step of four.
    std::vector<TestDocument> documents;
    for (std::uint64_t d = 0; d < 20; ++d) {
      TestDocument document;
      for (std::uint64_t i = 0; i < 3 + random_below(1, d, 18); ++i) {
        document.tokens.push_back(static_cast<std::uint32_t>(random_below(2, 100 * d + i, 256)));
        document.trained.push_back(i > 1 + d % 2);
      }
      documents.push_back(document);
    }
    vocabulary_ = nlohmann::json::parse(file_text(folder_.path() / "model.json"))["vocab_size"];
    folder_.write("chats.tok", token_file_bytes(documents, vocabulary_));
  }
  std::string states(const char* folder) const {
    return file_text(folder_.path() / folder / "model.safetensors") +
           file_text(folder_.path() / folder / "optimizer.safetensors");
  }

  std::uint32_t vocabulary_ = 0;
};

TEST_F(PackedProgramTest, IsSaidAndTrained) {
  const nlohmann::json result = json("run s.toml --set data.file=chats.tok --json");
  const std::string data = result["data"]["description"];
  EXPECT_MENTIONS(data, "tokens in 20 documents");
  EXPECT_MENTIONS(data, "packed into ");
  EXPECT_EQ(data.find("goes through them"), std::string::npos);
  const std::string many =
      json("run s.toml --steps 1 --set data.file=chats.tok --set workload.sequences=16 --json")["data"]["description"];
  EXPECT_MENTIONS(many, "; a step of 16 rows goes through them 2.0 times");
  EXPECT_EQ(result["tokens_per_step"], 4 * 32);
  EXPECT_EQ(result["updates"]["skipped"], 0);
  // The workload's data is the run's where nothing else is said: the scenario says "random".
  expect_error("run s.toml --set workload.data=chats.tok", 2, "leave the other out");
  folder_.write(
      "t.toml",
      file_text(folder_.path() / "s.toml").replace(file_text(folder_.path() / "s.toml").find("file = "), 15, ""));
  const nlohmann::json same = json("run t.toml --set workload.data=chats.tok --json");
  EXPECT_EQ(same["steps"][3]["loss"], result["steps"][3]["loss"]);
  EXPECT_EQ(same["schedule"], result["schedule"]);
}

/// Seven rows or so make an epoch, so that the third step of four rows begins in the second one.
TEST_F(PackedProgramTest, ResumesInTheMiddleOfAnEpochToTheSameBits) {
  const std::string with = " --set data.file=chats.tok --json";
  json("run s.toml --steps 5 --save whole" + with);
  for (const char* steps : {"1", "2", "3"}) {
    fs::remove_all(folder_.path() / "part");
    const std::string rest = std::to_string(5 - std::stoi(steps));
    json(std::string("run s.toml --steps ") + steps + " --save part" + with);
    EXPECT_NE(states("part"), states("whole"));
    json("run s.toml --steps " + rest + " --resume part --save part" + with);
    EXPECT_EQ(states("part"), states("whole")) << steps;
  }
}

TEST_F(PackedProgramTest, IsPredictedAndCompared) {
  json("run s.toml --set data.file=chats.tok --compare cmp --set run.steps=5 --json");
  EXPECT_MENTIONS(file_text(folder_.path() / "cmp/schedule.json").substr(0, 400), "penstock-schedule/2");
  // A schedule of windows is for other data.
  folder_.write("flat.tok",
                token_file_bytes({{std::vector<std::uint32_t>(200, 7), {}, LongDocument::split}}, vocabulary_));
  expect_error("run s.toml --set data.file=flat.tok --schedule cmp/schedule.json", 2,
               "the schedule is for rows packed, but s.toml has windows");
  const nlohmann::json dumped =
      json("run s.toml --set data.file=chats.tok --dump d --steps 2 --set policy.name=resident --json");
  for (const char* file : {"tokens.i32", "labels.i32", "document_starts.i32"})
    EXPECT_EQ(file_text(folder_.path() / "d" / file).size(), 2u * 4 * 32 * 4) << file;
}

TEST_F(PackedProgramTest, IsRefusedWhereItCannotBe) {
  const auto refuse = [&](const std::vector<TestDocument>& documents, std::uint32_t vocabulary,
                          const std::string& part) {
    folder_.write("bad.tok", token_file_bytes(documents, vocabulary));
    expect_error("run s.toml --set data.file=bad.tok", 2, part);
  };
  const std::vector<std::uint32_t> long_one(40, 5);
  refuse({{{1, 2, 3}, {}}, {long_one, {}}}, vocabulary_, "has 40 tokens, a row of 32 holds 33");
  refuse({{{1, 2, 3}, {}}, {{1, 2}, {}}}, vocabulary_ - 1, "the model's has");
  expect_error("run s.toml --set workload.data=model.json", 2, "is no file of tokens");
}

/// As many ids of another tokenizer are other texts.
TEST_F(PackedProgramTest, AnotherModelsTokenizerIsRefused) {
  std::string bytes = file_text(folder_.path() / "chats.tok");
  TokenFileHeader header = header_of(bytes);
  header.tokenizer_hash = XXH3_64bits("{}", 2);
  put(bytes, 0, header);
  seal(bytes);
  folder_.write("chats.tok", bytes);
  const std::string train = "run s.toml --steps 1 --set data.file=chats.tok",
                    evaluate = " --set eval.file=chats.tok --set eval.every=1";
  const auto unknown = run(train);
  EXPECT_EQ(unknown.code, 0);
  EXPECT_MENTIONS(unknown.err, "note: chats.tok: was made with the tokenizer of test; there is no tokenizer.json");
  folder_.write("tokenizer.json", "{}");  // beside model.json
  EXPECT_EQ(run(train + evaluate).err, "");
  folder_.write("text.txt", std::string(200, 'a'));
  const std::string said =
      "note: bytes are the tokens: text.txt (200 bytes); the model has a tokenizer, ./tokenizer.json";
  EXPECT_MENTIONS(run("run s.toml --steps 1 --set data.file=text.txt").err, said);
  EXPECT_MENTIONS(run(train + " --set eval.file=text.txt --set eval.every=1").err, "[eval] file: rows of text.txt");
  folder_.write("tokenizer.json", "{ }");
  expect_error(train, 2, "was made with another tokenizer than the model's");
  folder_.write("own.tok", token_file_bytes({{{1, 2, 3}, {}}, {{4, 5, 6}, {}}}, vocabulary_));
  expect_error("run s.toml --steps 1 --set data.file=own.tok" + evaluate, 2, "another tokenizer");
}

}  // namespace
}  // namespace penstock::exec
