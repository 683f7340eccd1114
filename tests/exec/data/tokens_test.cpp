#include "exec/data/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "shared/random.h"
#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

DataText text_of(std::string bytes, std::string place = "data") { return {std::move(bytes), std::move(place), 0, {}}; }

std::vector<std::int32_t> filled(const TokenSource& source, std::int64_t step, std::size_t count) {
  std::vector<std::int32_t> tokens(count, -1);
  source.fill(step, {tokens.data()});
  return tokens;
}

TEST(Tokens, AreConsecutiveBytesOfTheData) {
  const auto source = byte_tokens(text_of("abcdefgh", "data"), {3, 4, 256}, 1);
  const std::vector<std::int32_t> tokens = filled(*source, 1, 3 * 5);
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t t = 1; t < 5; ++t) EXPECT_EQ(tokens[row * 5 + t], tokens[row * 5 + t - 1] + 1);
}

TEST(Tokens, DependOnSeedAndStepAlone) {
  std::string data;
  for (int i = 0; i < 4096; ++i) data += static_cast<char>(mix64(static_cast<std::uint64_t>(i)));
  const TokenShape shape{4, 16, 256};
  const auto one = byte_tokens(text_of(data, "data"), shape, 1), again = byte_tokens(text_of(data, "data"), shape, 1),
             other = byte_tokens(text_of(data, "data"), shape, 2);
  const std::vector<std::int32_t> step5 = filled(*one, 5, 4 * 17);
  filled(*again, 9, 4 * 17);  // what was asked before plays no part
  EXPECT_EQ(filled(*again, 5, 4 * 17), step5);
  EXPECT_NE(filled(*one, 6, 4 * 17), step5);
  EXPECT_NE(filled(*other, 5, 4 * 17), step5);
}

TEST(Tokens, DataOfExactlyOneSequenceIsEnough) {
  const auto source = byte_tokens(text_of("abcde", "data"), {2, 4, 256}, 1);
  EXPECT_EQ(filled(*source, 1, 10), (std::vector<std::int32_t>{'a', 'b', 'c', 'd', 'e', 'a', 'b', 'c', 'd', 'e'}));
}

TEST(Tokens, EveryPlaceOccurs) {
  const auto source = byte_tokens(text_of("abcdef", "data"), {64, 3, 256}, 1);  // three places
  std::vector<std::int32_t> tokens = filled(*source, 1, 64 * 4);
  for (const char first : {'a', 'b', 'c'}) {
    int count = 0;
    for (std::size_t row = 0; row < 64; ++row) count += tokens[row * 4] == first ? 1 : 0;
    EXPECT_GT(count, 8) << first;  // 21 expected, standard deviation 3.8
  }
}

TEST(Tokens, ShortDataSaysHowManyBytesAreNeeded) {
  EXPECT_EQ(error_text([] {
              byte_tokens(text_of("abcd", "x.txt"), {2, 4, 256}, 1);
            }),
            "x.txt: a sequence of 4 tokens and its last target need 5 bytes of data, there are 4");
}

TEST(Tokens, EveryByteThatOccursMustBeInTheVocabulary) {
  const auto ascii = byte_tokens(text_of("abcdefgh"), {2, 4, 128}, 1);
  for (const std::int32_t token : filled(*ascii, 1, 10)) EXPECT_LT(token, 128);
  EXPECT_NO_THROW(byte_tokens(text_of("abcdefgh"), {2, 4, 'h' + 1}, 1));
  EXPECT_EQ(error_text([] {
              byte_tokens(text_of("abcdefgh", "x.txt"), {2, 4, 'h'}, 1);
            }),
            "x.txt: bytes are the tokens, and byte 104 occurs in it (first behind 7 bytes); the model's vocabulary has "
            "104 ids. 256 are enough for any bytes; [data] file = \"random\" works with any vocabulary");
  EXPECT_MENTIONS(error_text([] {
                    byte_tokens(text_of("gr\xc3\xbc\xc3\x9f dich"), {2, 4, 128}, 1);
                  }),
                  "byte 195 occurs");
  EXPECT_MENTIONS(error_text([] { byte_tokens(text_of("abcd\xff"), {2, 4, 255}, 1); }), "byte 255 occurs");
  EXPECT_NO_THROW(byte_tokens(text_of("abcd\xff"), {2, 4, 256}, 1));
}

TEST(Tokens, ChecksumNamesTheBytesAndNothingElse) {
  const std::string data = "123456789";
  // The check value that is published for CRC-32: cbf43926.
  EXPECT_EQ(byte_tokens(text_of(data, "a"), {1, 4, 256}, 1)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_EQ(byte_tokens(text_of(data, "b"), {3, 2, 300}, 2)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_NE(byte_tokens(text_of("123456798", "a"), {1, 4, 256}, 1)->checksum(), "crc32:cbf43926 of 9 bytes");
  EXPECT_EQ(random_tokens({1, 4, 7}, 1)->checksum(), "random");
}

TEST(Tokens, RandomIdsStayInTheVocabulary) {
  const auto source = random_tokens({100, 99, 7}, 1);
  const std::vector<std::int32_t> tokens = filled(*source, 3, 100 * 100);
  EXPECT_EQ(*std::min_element(tokens.begin(), tokens.end()), 0);
  EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), 6);
  EXPECT_EQ(filled(*source, 3, 100 * 100), tokens);
}

TEST(Tokens, WordRandomMeansRandomIdsUnlessThereIsSuchAFile) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("x.toml", "");
  const auto described = [&](const std::filesystem::path& data) {
    return open_tokens(data, "auto", scenario, {1, 4, 256}, 1)->describe();
  };
  EXPECT_EQ(described(folder.path() / "random"), "random token ids");
  // Only the word alone: a file of that name elsewhere is a file that is missing.
  EXPECT_MENTIONS(error_text([&] { described(folder.path() / "corpus" / "random"); }), "does not exist");
  EXPECT_MENTIONS(error_text([&] { described(folder.path() / "." / "random"); }), "No such file");
  folder.write("random", "abcdefgh");
  EXPECT_EQ(
      described(folder.path() / "random"),
      (folder.path() / "random").string() + ", which is there, so that \"random\" does not mean random ids (8 bytes)");
  EXPECT_EQ(described(folder.path() / "." / "random"), (folder.path() / "." / "random").string() + " (8 bytes)");
}

TEST(Tokens, SayWhatTheyAreOf) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("x.toml", "");
  folder.write("d/a.txt", "abcdefgh");
  folder.write("d/.hidden", "abcdefgh");
  const auto one = open_tokens(folder.path() / "d", "auto", scenario, {1, 4, 256}, 1);
  EXPECT_EQ(one->describe(), (folder.path() / "d").string() + " (8 bytes in 1 file)");
  ASSERT_EQ(one->passed_over().size(), 1u);
  EXPECT_EQ(one->passed_over()[0].first, ".hidden");
  folder.write("d/b.txt", "ijkl");
  EXPECT_EQ(open_tokens(folder.path() / "d", "auto", scenario, {1, 4, 256}, 1)->describe(),
            (folder.path() / "d").string() + " (12 bytes in 2 files)");
  folder.write("README.md", "readme");
  EXPECT_EQ(open_tokens("", "auto", scenario, {1, 4, 256}, 1)->describe(),
            "README.md and docs of " + folder.path().string() + ", the default data (6 bytes in 1 file)");
  EXPECT_EQ(random_tokens({1, 4, 256}, 1)->passed_over().size(), 0u);
}

TEST(Tokens, ShortDataSaysWhatWasPassedOver) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("x.toml", "");
  folder.write("d/note", "abc");
  folder.write("d/corpus.gz", std::string("\x1f\x8b\x08\x00", 4));
  const std::string text = error_text([&] { open_tokens(folder.path() / "d", "auto", scenario, {1, 4, 256}, 1); });
  EXPECT_MENTIONS(text, "need 5 bytes of data, there are 3; passed over corpus.gz: gzip-compressed (for text: gunzip");
}

TEST(Tokens, OfAFileAreConsecutiveIdsOfIt) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("x.toml", "");
  std::vector<std::uint32_t> ids(60);
  for (std::uint32_t i = 0; i < 60; ++i) ids[i] = 1000 + i;
  const std::string flat = llm_c_bytes(ids, false);
  folder.write("own", token_file_bytes({{ids, {}, LongDocument::split}}, 2000));
  folder.write("llm.c", flat);
  folder.write("raw", flat.substr(kLlmCHeaderBytes));
  const auto open = [&](const char* name, const char* kind) {
    return open_tokens(folder.path() / name, kind, scenario, {3, 4, 2000}, 1);
  };
  const auto own = open("own", "auto"), llm_c = open("llm.c", "auto"), raw = open("raw", "nanogpt");
  const std::vector<std::int32_t> tokens = filled(*own, 2, 3 * 5);
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t t = 1; t < 5; ++t) EXPECT_EQ(tokens[row * 5 + t], tokens[row * 5] + static_cast<std::int32_t>(t));
  EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 1000);
  EXPECT_EQ(filled(*llm_c, 2, 3 * 5), tokens);
  EXPECT_EQ(filled(*raw, 2, 3 * 5), tokens);
  EXPECT_EQ(own->describe(), (folder.path() / "own").string() + " (60 tokens, tokenizer of test)");
  EXPECT_EQ(raw->describe(), (folder.path() / "raw").string() + " (60 tokens)");
  EXPECT_NE(own->checksum(), raw->checksum());
  EXPECT_MENTIONS(error_text([&] { open("own", "nanogpt"); }), "begins with a header");
  EXPECT_MENTIONS(error_text([&] { open("raw", "auto"); }), "is binary (zero bytes); data is a text file");
  EXPECT_MENTIONS(error_text([&] { open_tokens("", "nanogpt", scenario, {3, 4, 2000}, 1); }), "there is no data");
}

TEST(Tokens, OfAFileAreThoseOfATextWithTheSameIds) {
  const TemporaryFolder folder;
  std::string text;
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < 500; ++i) {
    ids.push_back(static_cast<unsigned char>(mix64(i)));
    text += static_cast<char>(ids.back());
  }
  const TokenShape shape{4, 16, 256};
  const auto from_file = file_tokens(folder.write("f", llm_c_bytes(ids, true)), TokenFormat::llm_c, shape, 3);
  EXPECT_EQ(filled(*from_file, 7, 4 * 17), filled(*byte_tokens(text_of(text), shape, 3), 7, 4 * 17));
}

TEST(Tokens, OfAFileAreRefusedWhereTheyAreTooFewOrOfAnotherModel) {
  const TemporaryFolder folder;
  const auto text = [&](const std::vector<TestDocument>& documents, const TokenShape& shape) {
    return error_text(
        [&] { file_tokens(folder.write("f", token_file_bytes(documents, 9)), TokenFormat::penstock, shape, 1); });
  };
  EXPECT_EQ(text({{{1, 2, 3}, {}}}, {1, 2, 9}), "");
  EXPECT_MENTIONS(text({{{1, 2, 3}, {}}}, {1, 3, 9}), "need 4 tokens, there are 3");
  EXPECT_MENTIONS(text({{{1, 2, 3}, {}}}, {1, 2, 10}), "the model's has 10");
  EXPECT_MENTIONS(text({{{1, 2, 3, 4}, {}}, {{5, 6}, {}}}, {1, 2, 9}), "has 4 tokens, a row of 2 holds 3");
}

TEST(Tokens, OfAFileWithDocumentsOrMasksArePackedRows) {
  const TemporaryFolder folder;
  const auto open = [&](const std::vector<TestDocument>& documents) {
    return file_tokens(folder.write("f", token_file_bytes(documents, 9)), TokenFormat::penstock, {2, 5, 9}, 1);
  };
  EXPECT_EQ(open({{{1, 2, 3, 4, 5, 6}, {}}})->rows(), BatchKind::windows);
  EXPECT_EQ(open({{{1, 2, 3}, {false, false, true}}})->rows(), BatchKind::packed);
  const auto source = open({{{1, 2, 3, 4}, {false, true, false, true}}, {{5, 6, 7}, {}}, {{8, 5}, {}}});
  ASSERT_EQ(source->rows(), BatchKind::packed);
  std::vector<std::int32_t> tokens(10, -1), labels(10, -1), starts(10, -1);
  source->fill(1, {tokens.data(), labels.data(), starts.data()});
  // Rows of 5 hold documents of 3 and 2 places, and one alone; which comes first the seed decides.
  const std::size_t full = tokens[3] == 0 ? 5 : 0, other = 5 - full;
  const auto part = [](const std::vector<std::int32_t>& all, std::size_t from) {
    return std::vector<std::int32_t>(all.begin() + static_cast<long>(from), all.begin() + static_cast<long>(from) + 5);
  };
  EXPECT_EQ(part(tokens, full), (std::vector<std::int32_t>{1, 2, 3, 5, 6}));
  EXPECT_EQ(part(labels, full), (std::vector<std::int32_t>{2, -100, 4, 6, 7}));
  EXPECT_EQ(part(starts, full), (std::vector<std::int32_t>{0, 0, 0, 3, 3}));
  EXPECT_EQ(part(tokens, other), (std::vector<std::int32_t>{8, 0, 0, 0, 0}));
  EXPECT_EQ(part(labels, other), (std::vector<std::int32_t>{5, -100, -100, -100, -100}));
  EXPECT_EQ(part(starts, other), (std::vector<std::int32_t>{0, 1, 1, 1, 1}));
  EXPECT_DOUBLE_EQ(source->squared_lengths(), (9 + 4 + 1 + 16) / 2.0);
  EXPECT_EQ(source->describe(), (folder.path() / "f").string() +
                                    " (9 tokens in 3 documents, tokenizer of test), packed into 2 rows, 60.0 % full, 5 "
                                    "tokens trained on");
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
