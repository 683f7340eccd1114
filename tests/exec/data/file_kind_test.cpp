#include "exec/data/file_kind.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/random.h"

namespace penstock::exec {
namespace {

using namespace std::string_view_literals;
using namespace std::string_literals;

/// "" for text.
std::string kind_of(std::string_view head) {
  const FileKind* kind = kind_unless_text(head);
  return kind == nullptr ? "" : std::string(kind->what);
}

std::string random_bytes(std::size_t count, std::uint64_t key) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(random64(key, i));
  return bytes;
}

/// In 2 or 4 bytes each.
std::string in_units(std::u32string_view text, std::size_t bytes, bool little) {
  std::string out;
  const auto put = [&](char32_t unit) {
    for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(unit >> (8 * (little ? i : bytes - 1 - i)));
  };
  for (const char32_t code : text) {
    if (bytes == 2 && code > 0xFFFF) {
      put(0xD800 + ((code - 0x10000) >> 10));
      put(0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      put(code);
    }
  }
  return out;
}

constexpr std::u32string_view kEnglish = U"One small step.\r\n";
constexpr std::u32string_view kRussian = U"Мама мыла раму.\nРама была чистой.\n";
constexpr std::u32string_view kChinese =
    U"天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜\n";
constexpr std::u32string_view kEmoji = U"😀 😃\n";

TEST(FileKind, TextInAnyEncodingThatKeepsAsciiIsText) {
  for (const std::string_view text :
       {"plain\n"sv, "x"sv, "gr\xc3\xbc\xc3\x9f"sv /* UTF-8 */, "gr\xfc\xdf"sv /* Latin-1 */,
        "\x93quoted\x94 \x96 by Windows"sv, "\x82\xa0\x82\xa2\x82\xa4"sv /* Shift-JIS */,
        "\xc4\xe3\xba\xc3"sv /* GBK */, "\xef\xbb\xbfwith a mark"sv, "\x1b[1mcolours\x1b[0m\n"sv, "N\bNA\bAM\bME\bE"sv,
        "page\fpage\vline\r\n"sv, "end of file of DOS\x1a"sv, "a,b\n1,2\n"sv,
        "{\"text\": \"one\"}\n{\"text\": \"two\"}\n"sv, "#!/bin/sh\necho $'\\x1f'\n"sv, "int main() { return 0; }\n"sv,
        "%!PS\n"sv, "{\\rtf1 a}"sv})
    EXPECT_EQ(kind_of(text), "") << text;
}

TEST(FileKind, TextsThatBeginAsSomethingElseAreTexts) {
  for (const std::string_view text : {"ORCHESTRA"sv, "MZ said so"sv, "BM"sv, "PAR1 of 2"sv, "GIF89a is a format"sv,
                                      "RIFF"sv, "ID3 tags"sv, "SQLite format 3 is"sv, "LZIP"sv, "Rar!"sv, "PK"sv,
                                      "BZh91"sv, "version https://example.com"sv, "7z x"sv, "II*"sv, "xxxxftyp"sv})
    EXPECT_EQ(kind_of(text), "") << text;
}

TEST(FileKind, CompressedAndContainedIsNamedEvenWithoutAZeroByte) {
  const std::string noise = std::string(200, 'a');  // text by itself
  EXPECT_EQ(kind_of("\x1f\x8b\x08\x08" + noise), "gzip-compressed");
  EXPECT_EQ(kind_of("\x1f\x9d" + noise), "compressed (.Z)");
  EXPECT_EQ(kind_of("BZh91AY&SY" + noise), "bzip2-compressed");
  EXPECT_EQ(kind_of("\xfd"
                    "7zXZ"s +
                    '\0' + noise),
            "xz-compressed");
  EXPECT_EQ(kind_of("\x28\xb5\x2f\xfd" + noise), "zstd-compressed");
  EXPECT_EQ(kind_of("\x04\x22\x4d\x18" + noise), "lz4-compressed");
  EXPECT_EQ(kind_of("LZIP\x01" + noise), "lzip-compressed");
  EXPECT_EQ(kind_of("PK\x03\x04" + noise), "a zip archive (as docx, xlsx, epub, npz and torch files are)");
  EXPECT_EQ(kind_of("PK\x03\x04" + std::string(26, ' ') + "[Content_Types].xml" + noise), "an Office document");
  EXPECT_EQ(kind_of("7z\xbc\xaf\x27\x1c" + noise), "a 7z archive");
  EXPECT_EQ(kind_of("%PDF-1.7\n" + noise), "a PDF");
  EXPECT_EQ(kind_of("\x89PNG\r\n\x1a\n" + noise), "an image (PNG)");
  EXPECT_EQ(kind_of("\xff\xd8\xff\xe0" + noise), "an image (JPEG)");
  EXPECT_EQ(kind_of("!<arch>\n" + noise), "an ar archive (as libraries and Debian packages are)");
  EXPECT_EQ(kind_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
            "a Git LFS pointer, not the file itself");
}

TEST(FileKind, BinariesAreNamedWhereTheyAreKnown) {
  const std::string zeros(300, '\0');
  EXPECT_EQ(kind_of(zeros), "binary (zero bytes)");
  EXPECT_EQ(kind_of("a" + zeros), "binary (zero bytes)");
  EXPECT_EQ(kind_of("SQLite format 3" + zeros), "an SQLite database");
  EXPECT_EQ(kind_of("PAR1" + zeros), "a Parquet file");
  EXPECT_EQ(kind_of("\x7f"
                    "ELF\x02" +
                    zeros),
            "a program or library (ELF)");
  EXPECT_EQ(kind_of("GGUF" + zeros), "weights (GGUF)");
  EXPECT_EQ(kind_of("\x40\x01\0\0\0\0\0\0{\"__metadata__\":{}}"sv), "tensors (safetensors)");
  std::string tar = "a.txt" + std::string(252, '\0') + "ustar  ";
  EXPECT_EQ(kind_of(tar + std::string(255, '\0')), "a tar archive");
  EXPECT_EQ(kind_of(std::string(5000, 'a') + '\0'), "binary (zero bytes)");
}

TEST(FileKind, ControlCharactersWithoutZeroBytesAreNoText) {
  // Random bytes without zero: one in ten is a control character that no text needs.
  for (const std::uint64_t key : {1, 2, 3}) {
    std::string bytes = random_bytes(4000, key);
    std::erase(bytes, '\0');
    for (const std::size_t length : {200, 1000, 3900})
      EXPECT_EQ(kind_of(std::string_view(bytes).substr(0, length)), "binary (control characters)")
          << key << " " << length;
  }
  EXPECT_EQ(kind_of(std::string(31, 'a') + '\x01'), "");
  EXPECT_EQ(kind_of(std::string(30, 'a') + '\x01'), "binary (control characters)");
}

TEST(FileKind, Utf16AndUtf32AreNamedWithAMark) {
  EXPECT_EQ(kind_of("\xff\xfe" + in_units(kEnglish, 2, true)), "UTF-16 text");
  EXPECT_EQ(kind_of("\xfe\xff" + in_units(kEnglish, 2, false)), "UTF-16 text");
  EXPECT_EQ(kind_of("\xff\xfe" + in_units(U"天地玄黄", 2, true)), "UTF-16 text");  // no zero byte
  EXPECT_EQ(kind_of("\xff\xfe"), "UTF-16 text");
  EXPECT_EQ(kind_of("\xff\xfe\0\0"s + in_units(kEnglish, 4, true)), "UTF-32 text");
  EXPECT_EQ(kind_of("\0\0\xfe\xff"s + in_units(kEnglish, 4, false)), "UTF-32 text");
}

TEST(FileKind, Utf16AndUtf32AreNamedWithoutAMark) {
  for (const std::u32string_view text : {kEnglish, kRussian, kChinese, kEmoji}) {
    const FileKind* const little = kind_unless_text(in_units(text, 2, true));
    const FileKind* const big = kind_unless_text(in_units(text, 2, false));
    ASSERT_TRUE(little != nullptr && big != nullptr);
    EXPECT_EQ(little->what, "UTF-16 text without a byte order mark");
    EXPECT_NE(little->command.find("UTF-16LE"), std::string::npos);
    EXPECT_EQ(big->what, "UTF-16 text without a byte order mark");
    EXPECT_NE(big->command.find("UTF-16BE"), std::string::npos);
    EXPECT_EQ(kind_of(in_units(text, 4, true)), "UTF-32 text without a byte order mark");
    EXPECT_EQ(kind_of(in_units(text, 4, false)), "UTF-32 text without a byte order mark");
    EXPECT_EQ(kind_of(in_units(text, 2, true) + "x"), "UTF-16 text without a byte order mark");  // cut off
  }
}

TEST(FileKind, ZeroBytesInTextAndNumbersAreNotUtf16) {
  EXPECT_EQ(kind_of("an even number of bytes\0and so on in ASCII"sv), "binary (zero bytes)");
  EXPECT_EQ(kind_of("ein paar W\xc3\xb6rter\0in UTF-8"sv), "binary (zero bytes)");
  std::string numbers;  // 16-bit token ids
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t id = random_below(5, i, 50'000);
    numbers += static_cast<char>(id);
    numbers += static_cast<char>(id >> 8);
  }
  EXPECT_EQ(kind_of(numbers), "binary (zero bytes)");
}

}  // namespace
}  // namespace penstock::exec
