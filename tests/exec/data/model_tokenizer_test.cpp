#include "exec/data/model_tokenizer.h"

#include <gtest/gtest.h>

#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

class ModelTokenizerTest : public ::testing::Test {
 protected:
  TokenFile file_made_with(const std::string& tokenizer) const {
    std::string bytes = token_file_bytes({{{1, 2, 3}, {}, LongDocument::refuse}}, 9);
    TokenFileHeader header = header_of(bytes);
    if (!tokenizer.empty()) header.tokenizer_hash = XXH3_64bits(tokenizer.data(), tokenizer.size());
    put(bytes, 0, header);
    seal(bytes);
    return TokenFile(folder_.write("a.tok", bytes), 9);
  }
  TemporaryFolder folder_;
};

TEST_F(ModelTokenizerTest, TheSameOneIsTaken) {
  folder_.write("m/tokenizer.json", "{}");
  EXPECT_EQ(check_tokenizer(file_made_with("{}"), {folder_.path() / "m"}), "");
}

TEST_F(ModelTokenizerTest, AnotherOneOfAsManyIdsIsRefusedWithBothHashes) {
  folder_.write("m/tokenizer.json", "{ }");
  const std::string text = error_text([&] { check_tokenizer(file_made_with("{}"), {folder_.path() / "m"}); });
  EXPECT_MENTIONS(text,
                  "a.tok: was made with another tokenizer than the model's: with tokenizer.json of test (XXH3-64 ");
  EXPECT_MENTIONS(text, "prepare it with scripts/prepare --model " + (folder_.path() / "m").string());
}

TEST_F(ModelTokenizerTest, TheFirstFolderThatHasOneDecides) {
  folder_.write("weights/tokenizer.json", "{}");
  folder_.write("config/tokenizer.json", "other");
  const auto weights = folder_.path() / "weights", config = folder_.path() / "config", none = folder_.path() / "none";
  EXPECT_EQ(check_tokenizer(file_made_with("{}"), {none, weights, config}), "");
  EXPECT_THROW(check_tokenizer(file_made_with("{}"), {none, config, weights}), InputError);
}

TEST_F(ModelTokenizerTest, WhereNothingCanBeComparedItIsSaid) {
  EXPECT_MENTIONS(check_tokenizer(file_made_with("{}"), {folder_.path(), "/nowhere"}),
                  "a.tok: was made with the tokenizer of test; there is no tokenizer.json with the model");
  folder_.write("tokenizer.json", "{}");
  EXPECT_EQ(check_tokenizer(file_made_with(""), {folder_.path()}), "");  // the file does not say
}

TEST_F(ModelTokenizerTest, BytesInThePlaceOfAModelsOwnTokensAreSaid) {
  EXPECT_EQ(bytes_beside_tokenizer("a text", {folder_.path(), "/nowhere"}), "");
  folder_.write("m/tokenizer.json", "{}");
  const std::string said = bytes_beside_tokenizer("a text", {folder_.path(), folder_.path() / "m"});
  EXPECT_MENTIONS(said, "bytes are the tokens: a text; the model has a tokenizer, ");
  EXPECT_MENTIONS(said, "scripts/prepare --model " + (folder_.path() / "m").string());
}

TEST_F(ModelTokenizerTest, OneThatCannotBeReadIsAnError) {
  folder_.write("m/tokenizer.json/a", "");
  EXPECT_MENTIONS(error_text([&] { check_tokenizer(file_made_with("{}"), {folder_.path() / "m"}); }), "tokenizer.json");
}

}  // namespace
}  // namespace penstock::exec
