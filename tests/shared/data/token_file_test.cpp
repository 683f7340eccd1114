#include "shared/data/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

std::vector<TestDocument> three_documents() {
  return {{{1, 2, 3}, {false, false, true}, LongDocument::refuse},
          {{4, 5, 6, 7, 8}, {}, LongDocument::split},
          {{9, 10, 11}, {false, true, false}, LongDocument::truncate}};
}

void expect_three_documents(const TokenFile& file) {
  EXPECT_EQ(file.format(), TokenFormat::penstock);
  ASSERT_EQ(file.tokens(), 11);
  for (std::int64_t i = 0; i < 11; ++i) EXPECT_EQ(file.token(i), i + 1);
  ASSERT_EQ(file.documents(), 3);
  EXPECT_EQ(file.document_start(1), 3);
  EXPECT_EQ(file.document_start(2), 8);
  EXPECT_EQ(file.document_start(3), 11);
  const std::vector<bool> trained{false, false, true, false, true, true, true, true, false, true, false};
  for (std::int64_t i = 0; i < 11; ++i) EXPECT_EQ(file.trained(i), trained[static_cast<std::size_t>(i)]) << i;
  EXPECT_EQ(file.trained_tokens(), 6);
  EXPECT_FALSE(file.trains_on_all());
  EXPECT_EQ(file.trained_in(2, 6), 3);  // tokens 2, 4, 5
  EXPECT_EQ(file.lengths(), (std::vector<LengthCount>{{3, 2}, {5, 1}}));
  EXPECT_EQ(file.long_document(0), LongDocument::refuse);
  EXPECT_EQ(file.long_document(1), LongDocument::split);
  EXPECT_EQ(file.long_document(2), LongDocument::truncate);
  EXPECT_EQ(file.tokenizer(), "test");
  EXPECT_EQ(file.vocabulary(), 12);
}

TEST(TokenFile, HasWhatWasWritten) {
  const TemporaryFolder folder;
  expect_three_documents(TokenFile(folder.write("a", token_file_bytes(three_documents(), 12, 2)), 12));
  expect_three_documents(TokenFile(folder.write("b", token_file_bytes(three_documents(), 12, 4)), 0));
}

// tests/scripts/prepare holds scripts/prepare against the same file.
TEST(TokenFile, ReadsWhatPrepareWrote) {
  const TokenFile file(source_folder() / "tests/fuzz/seeds/token_file/prepared.tokens", 300);
  EXPECT_EQ(file.tokenizer(), "model");
  ASSERT_EQ(file.documents(), 5);  // two conversations twice, one text
  EXPECT_EQ(file.long_document(0), LongDocument::truncate);
  EXPECT_EQ(file.long_document(4), LongDocument::split);
  // "the", its end and a line's end; " the" twice more; all of "some text" and its end but the first byte.
  EXPECT_EQ(file.trained_in(0, file.document_start(1)), 3);
  EXPECT_EQ(file.trained_in(file.document_start(2), file.document_start(3)), 5);
  EXPECT_EQ(file.trained_in(file.document_start(4), file.tokens()), 9);
  EXPECT_EQ(file.trained_tokens(), 2 * 3 + 2 * 5 + 9);
}

TEST(TokenFile, CountsTrainedTokensOverWholeWords) {
  TestDocument document;
  for (std::uint32_t i = 0; i < 500; ++i) {
    document.tokens.push_back(i);
    document.trained.push_back(i % 3 == 1);
  }
  const TemporaryFolder folder;
  const TokenFile file(folder.write("a", token_file_bytes({document}, 500)), 500);
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 500}, {1, 500}, {63, 65}, {64, 128}, {5, 300}, {64, 127}, {130, 130}}) {
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i) count += i % 3 == 1 ? 1 : 0;
    EXPECT_EQ(file.trained_in(begin, end), count) << begin << " " << end;
  }
}

TEST(TokenFile, TrainsOnAllThatHasSomethingBefore) {
  const TemporaryFolder folder;
  EXPECT_TRUE(TokenFile(folder.write("a", token_file_bytes({{{1, 2}, {}}, {{3, 4, 5}, {}}}, 9)), 9).trains_on_all());
}

TEST(TokenFile, ChecksumNamesTheContent) {
  const TemporaryFolder folder;
  const auto checksum = [&](const std::vector<TestDocument>& documents) {
    return TokenFile(folder.write("a", token_file_bytes(documents, 12)), 12).checksum();
  };
  auto documents = three_documents();
  const std::string before = checksum(documents);
  EXPECT_EQ(checksum(documents), before);
  EXPECT_MENTIONS(before, " of 11 tokens");
  documents[1].trained = {false, true, true, true, false};
  EXPECT_NE(checksum(documents), before);
}

TEST(TokenFile, ReadsFlatFiles) {
  const TemporaryFolder folder;
  const auto expect = [](const TokenFile& file, TokenFormat format, std::int32_t last) {
    EXPECT_EQ(file.format(), format);
    ASSERT_EQ(file.tokens(), 3);
    EXPECT_EQ(file.token(0), 7);
    EXPECT_EQ(file.token(2), last);
    EXPECT_EQ(file.documents(), 1);
    EXPECT_FALSE(file.trained(0));
    EXPECT_TRUE(file.trained(1));
    EXPECT_EQ(file.trained_in(0, 3), 2);
    EXPECT_TRUE(file.trains_on_all());
    EXPECT_EQ(file.long_document(0), LongDocument::split);
    EXPECT_EQ(file.lengths(), (std::vector<LengthCount>{{3, 1}}));
  };
  expect(TokenFile(folder.write("gpt2.bin", llm_c_bytes({7, 8, 50256}, false)), 50257), TokenFormat::llm_c, 50256);
  expect(TokenFile(folder.write("llama3.bin", llm_c_bytes({7, 8, 128000}, true)), 128256), TokenFormat::llm_c, 128000);
  const auto raw = folder.write("raw.bin", std::string_view("\x07\x00\x08\x00\x50\xc4", 6));
  expect(TokenFile(raw, TokenFormat::nanogpt, 50304), TokenFormat::nanogpt, 0xc450);
  EXPECT_MENTIONS(error_text([&] { TokenFile(raw, 50304); }), "is no file of tokens");
}

TEST(TokenFile, FormatIsToldByTheFirstBytes) {
  const TemporaryFolder folder;
  EXPECT_EQ(token_format(folder.write("a", token_file_bytes(three_documents(), 12))), TokenFormat::penstock);
  EXPECT_EQ(token_format(folder.write("b", llm_c_bytes({1, 2}, false))), TokenFormat::llm_c);
  EXPECT_EQ(token_format(folder.write("c", "PTOK is how a text begins")), std::nullopt);
  EXPECT_EQ(token_format(folder.write("d", "")), std::nullopt);
  EXPECT_EQ(token_format(folder.path()), std::nullopt);
  EXPECT_EQ(token_format(folder.path() / "missing"), std::nullopt);
}

TEST(TokenFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto text = [&](const std::filesystem::path& path) { return error_text([&] { TokenFile(path, 0); }); };
  EXPECT_MENTIONS(text(folder.path()), "is a folder");
  EXPECT_MENTIONS(text(folder.path() / "missing"), "cannot be read");
  EXPECT_MENTIONS(text(folder.write("empty", "")), "is empty");
  EXPECT_MENTIONS(text(folder.write("text", "some text")), "is no file of tokens");
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_MENTIONS(text(pipe), "is not a regular file");
}

/// Whoever asks for documents alone finds wrong ones, and not what only a run has to know.
TEST(TokenFile, DocumentsAloneNeedNeitherIdsNorTheChecksum) {
  const TemporaryFolder folder;
  std::string bytes = token_file_bytes(three_documents(), 12);
  put(bytes, token_file_layout(header_of(bytes)).tokens, std::uint16_t{500});
  const auto path = folder.write("a", bytes);
  const TokenFile file(path, TokenFormat::penstock, 12, TokenFileCheck::documents);
  EXPECT_EQ(file.documents(), 3);
  EXPECT_EQ(file.lengths(), TokenFile(folder.write("b", token_file_bytes(three_documents(), 12)), 12).lengths());
  EXPECT_MENTIONS(error_text([&] { TokenFile(path, 12); }), "byte 120: its checksum is");
  put(bytes, token_file_layout(header_of(bytes)).starts, std::uint64_t{1});
  folder.write("a", bytes);
  EXPECT_MENTIONS(error_text([&] { TokenFile(path, TokenFormat::penstock, 12, TokenFileCheck::documents); }),
                  "document 0 begins at token 1");
}

struct Damage {
  const char* name;
  std::function<void(std::string&)> make;  // the checksum is made right afterwards
  const char* says;
};

std::uint64_t section(const std::string& bytes, std::uint64_t TokenFileLayout::*which) {
  return token_file_layout(header_of(bytes)).*which;
}

TEST(TokenFile, RefusesEachWrongField) {
  const Damage damages[] = {
      {"version", [](std::string& b) { put(b, 8, 2u); }, "byte 8: is of version 2; this program reads version 1"},
      {"width", [](std::string& b) { put(b, 12, 3u); }, "byte 12: has 3 bytes for each token"},
      {"no tokens", [](std::string& b) { put(b, 16, std::uint64_t{0}); }, "byte 16: has no tokens"},
      {"many tokens", [](std::string& b) { put(b, 16, UINT64_MAX); }, "byte 16: is truncated"},
      {"tokens", [](std::string& b) { put(b, 16, std::uint64_t{100}); }, "is truncated: "},
      {"no documents", [](std::string& b) { put(b, 24, std::uint64_t{0}); }, "byte 24: has no documents"},
      {"many documents", [](std::string& b) { put(b, 24, std::uint64_t{1} << 61); }, "byte 24: is truncated"},
      {"documents", [](std::string& b) { put(b, 24, std::uint64_t{12}); }, "byte 24: has 12 documents"},
      {"trained", [](std::string& b) { put(b, 32, std::uint64_t{7}); }, "byte 32: says that 7 tokens are trained on"},
      {"no vocabulary", [](std::string& b) { put(b, 48, 0u); }, "byte 48: a vocabulary of 0"},
      {"small vocabulary", [](std::string& b) { put(b, 48, 11u); }, "token 10 (byte 212) is id 11; ids below 11"},
      {"long name", [](std::string& b) { put(b, 52, 1u << 20); }, "byte 52: "},
      {"reserved", [](std::string& b) { put(b, 80, std::uint8_t{3}); }, "byte 80: is 3; 0 would be right"},
      {"many lengths", [](std::string& b) { put(b, 56, UINT64_MAX / 16); }, "byte 56: is truncated"},
      {"first start", [](std::string& b) { put(b, section(b, &TokenFileLayout::starts), std::uint64_t{1}); },
       "document 0 begins at token 1"},
      {"equal starts", [](std::string& b) { put(b, section(b, &TokenFileLayout::starts) + 16, std::uint64_t{3}); },
       "document 2 begins at token 3, the one before at 3"},
      {"start behind", [](std::string& b) { put(b, section(b, &TokenFileLayout::starts) + 16, std::uint64_t{11}); },
       "document 2 begins at token 11"},
      {"long rule", [](std::string& b) { put(b, section(b, &TokenFileLayout::long_documents) + 1, '\x03'); },
       "document 1: 3 for what is done if it is long"},
      {"histogram", [](std::string& b) { put(b, section(b, &TokenFileLayout::lengths) + 8, std::uint64_t{1}); },
       "entry 0 of its histogram"},
      {"first token trained", [](std::string& b) { put(b, section(b, &TokenFileLayout::loss), '\x0c'); },
       "token 3, the first of document 1, is marked"},
      {"bit behind", [](std::string& b) { put(b, section(b, &TokenFileLayout::loss) + 1, '\x12'); },
       "a loss bit is set behind the last of the 11 tokens"},
      {"all masked",
       [](std::string& b) {
         put(b, section(b, &TokenFileLayout::loss), std::uint16_t{0});
         put(b, 32, std::uint64_t{0});
       },
       "not one of its tokens is trained on"},
      {"id", [](std::string& b) { put(b, section(b, &TokenFileLayout::tokens) + 4, std::uint16_t{12}); },
       "token 2 (byte 196) is id 12; ids below 12 would be right"},
      {"more bytes", [](std::string& b) { b += '\0'; }, "is too long"},
      {"fewer bytes", [](std::string& b) { b.pop_back(); }, "is truncated"},
      {"header only", [](std::string& b) { b.resize(100); }, "is truncated: 100 bytes"},
  };
  const TemporaryFolder folder;
  for (const Damage& damage : damages) {
    std::string bytes = token_file_bytes(three_documents(), 12);
    damage.make(bytes);
    seal(bytes);
    const std::string text = error_text([&] { TokenFile(folder.write("f.tokens", bytes), 0); });
    EXPECT_MENTIONS(text, damage.says) << damage.name;
    EXPECT_MENTIONS(text, "f.tokens: ") << damage.name;
  }
}

TEST(TokenFile, RefusesAnyChangedByte) {
  const TemporaryFolder folder;
  const std::string bytes = token_file_bytes(three_documents(), 12);
  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(error_text([&] { TokenFile(folder.write("f", changed), 0); }), "") << i;
  }
}

TEST(TokenFile, RefusesAnotherModelsVocabulary) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", token_file_bytes(three_documents(), 12));
  EXPECT_MENTIONS(error_text([&] { TokenFile(path, 13); }),
                  "was made for a vocabulary of 12 ids (tokenizer of test), the model's has 13");
  EXPECT_MENTIONS(error_text([&] {
                    TokenFile(folder.write("g", llm_c_bytes({1, 500}, false)), 256);
                  }),
                  "token 1 (byte 1026) is id 500; ids below 256");
}

TEST(TokenFile, RefusesDamagedFlatFiles) {
  const TemporaryFolder folder;
  const auto text = [&](std::string bytes) { return error_text([&] { TokenFile(folder.write("f", bytes), 0); }); };
  std::string bytes = llm_c_bytes({1, 2, 3}, false);
  EXPECT_MENTIONS(text(bytes.substr(0, 1029)), "byte 8: ");
  EXPECT_MENTIONS(text(bytes.substr(0, 1023)), "is no file of tokens");
  put(bytes, 8, -1);
  EXPECT_MENTIONS(text(bytes), "says that it has -1 tokens");
  put(bytes, 4, 7);
  EXPECT_MENTIONS(text(bytes), "byte 4: is llm.c's, of version 7; with magic 20240520 version 1");
  const auto raw = [&](std::string content, std::int64_t vocabulary) {
    return error_text([&] { TokenFile(folder.write("f", content), TokenFormat::nanogpt, vocabulary); });
  };
  EXPECT_MENTIONS(raw("abc", 0), "has 3 bytes");
  EXPECT_MENTIONS(raw("ab", 0), "at least 2 tokens");
  EXPECT_MENTIONS(raw("text", 20000), "token 0 (byte 0) is id 25972");
  EXPECT_MENTIONS(raw(llm_c_bytes({1, 2}, false), 0), "begins with a header");
}

TEST(TokenFile, NoticesThatItWasWrittenOver) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", token_file_bytes(three_documents(), 12));
  const TokenFile file(path, 12);
  file.require_unchanged();
  const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(2);
  std::filesystem::last_write_time(path, later);
  EXPECT_THROW(file.require_unchanged(), std::runtime_error);
}

}  // namespace
}  // namespace penstock
