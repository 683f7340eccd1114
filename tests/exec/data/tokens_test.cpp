#include "exec/data/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/data/random.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

std::vector<std::int32_t> filled(const TokenSource& source, std::int64_t step, std::size_t count) {
  std::vector<std::int32_t> tokens(count, -1);
  source.fill(step, tokens.data());
  return tokens;
}

TEST(Tokens, AreConsecutiveBytesOfTheData) {
  const auto source = byte_tokens("abcdefgh", "data", {3, 4, 256}, 1);
  const std::vector<std::int32_t> tokens = filled(*source, 1, 3 * 5);
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t t = 1; t < 5; ++t) EXPECT_EQ(tokens[row * 5 + t], tokens[row * 5 + t - 1] + 1);
}

TEST(Tokens, DependOnSeedAndStepAlone) {
  std::string data;
  for (int i = 0; i < 4096; ++i) data += static_cast<char>(mix64(static_cast<std::uint64_t>(i)));
  const TokenShape shape{4, 16, 256};
  const auto one = byte_tokens(data, "data", shape, 1), again = byte_tokens(data, "data", shape, 1),
             other = byte_tokens(data, "data", shape, 2);
  const std::vector<std::int32_t> step5 = filled(*one, 5, 4 * 17);
  filled(*again, 9, 4 * 17);  // what was asked before plays no part
  EXPECT_EQ(filled(*again, 5, 4 * 17), step5);
  EXPECT_NE(filled(*one, 6, 4 * 17), step5);
  EXPECT_NE(filled(*other, 5, 4 * 17), step5);
}

TEST(Tokens, DataOfExactlyOneSequenceIsEnough) {
  const auto source = byte_tokens("abcde", "data", {2, 4, 256}, 1);
  EXPECT_EQ(filled(*source, 1, 10), (std::vector<std::int32_t>{'a', 'b', 'c', 'd', 'e', 'a', 'b', 'c', 'd', 'e'}));
}

TEST(Tokens, EveryPlaceOccurs) {
  const auto source = byte_tokens("abcdef", "data", {64, 3, 256}, 1);  // three places
  std::vector<std::int32_t> tokens = filled(*source, 1, 64 * 4);
  for (const char first : {'a', 'b', 'c'}) {
    int count = 0;
    for (std::size_t row = 0; row < 64; ++row) count += tokens[row * 4] == first ? 1 : 0;
    EXPECT_GT(count, 8) << first;  // 21 expected, standard deviation 3.8
  }
}

TEST(Tokens, ShortDataSaysHowManyBytesAreNeeded) {
  EXPECT_EQ(error_text([] {
              byte_tokens("abcd", "x.txt", {2, 4, 256}, 1);
            }),
            "x.txt: a sequence of 4 tokens and its last target need 5 bytes of data, there are 4");
}

TEST(Tokens, BytesNeedAVocabularyOf256) {
  EXPECT_NE(error_text([] { byte_tokens("abcdefgh", "x.txt", {2, 4, 255}, 1); }).find("it is 255"), std::string::npos);
}

TEST(Tokens, ChecksumNamesTheBytesAndNothingElse) {
  const std::string data = "123456789";
  // The check value that is published for CRC-32: cbf43926.
  EXPECT_EQ(byte_tokens(data, "a", {1, 4, 256}, 1)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_EQ(byte_tokens(data, "b", {3, 2, 300}, 2)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_NE(byte_tokens("123456798", "a", {1, 4, 256}, 1)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_EQ(random_tokens({1, 4, 7}, 1)->checksum(), "random");
}

TEST(Tokens, RandomIdsStayInTheVocabulary) {
  const auto source = random_tokens({100, 99, 7}, 1);
  const std::vector<std::int32_t> tokens = filled(*source, 3, 100 * 100);
  EXPECT_EQ(*std::min_element(tokens.begin(), tokens.end()), 0);
  EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), 6);
  EXPECT_EQ(filled(*source, 3, 100 * 100), tokens);
}

TEST(Tokens, FolderIsItsTextFilesInOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", "second ");
  folder.write("a/x.md", "first ");
  folder.write("c.bin", std::string("\0binary", 7));
  EXPECT_EQ(read_data(folder.path()), "first second ");
}

TEST(Tokens, FolderWithoutTextIsRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(error_text([&] { read_data(folder.path()); }).find("no text files"), std::string::npos);
}

TEST(Tokens, DefaultDataIsTheNearestReadmeAndItsDocs) {
  const TemporaryFolder folder;
  folder.write("README.md", "readme ");
  folder.write("docs/b.md", "b ");
  folder.write("docs/a.md", "a ");
  folder.write("docs/c.txt", "c ");
  const auto scenario = folder.write("scenarios/deep/x.toml", "");
  EXPECT_EQ(read_default_data(scenario.parent_path()), "readme a b ");
}

TEST(Tokens, WordRandomMeansRandomIdsUnlessThereIsSuchAFile) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("x.toml", "");
  EXPECT_EQ(open_tokens(folder.path() / "random", scenario, {1, 4, 100}, 1)->describe(), "random token ids");
  folder.write("random", "abcdefgh");
  EXPECT_NE(open_tokens(folder.path() / "random", scenario, {1, 4, 256}, 1)->describe().find("8 bytes"),
            std::string::npos);
}

TEST(RandomNumbers, NormalsHaveMeanZeroAndVarianceOne) {
  const std::uint64_t key = random_key(1, "tensor");
  double sum = 0, squares = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(key, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));  // four standard errors
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
}

TEST(RandomNumbers, NamesAndSeedsGiveOtherKeys) {
  EXPECT_NE(random_key(1, "a"), random_key(1, "b"));
  EXPECT_NE(random_key(1, "a"), random_key(2, "a"));
  // Known answer of splitmix64 seeded with 0: its first output.
  EXPECT_EQ(random64(0, 0), 0xE220A8397B1DCDAFu);
}

}  // namespace
}  // namespace penstock::exec
