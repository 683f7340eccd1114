// The first bytes of the files that token_file.h reads, as they lie on disk (little-endian, like every machine that
// Penstock runs on). docs/token_file.md explains the fields.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock {

static_assert(std::endian::native == std::endian::little);

inline constexpr unsigned char kTokenFileMagic[8] = {0x89, 'P', 'T', 'O', 'K', '\r', '\n', 0x1a};  // begins no text
inline constexpr std::uint32_t kTokenFileVersion = 1;
inline constexpr std::uint64_t kTokenSectionAlignment = 64;
inline constexpr std::uint32_t kMostTokenizerNameBytes = 4096;

struct TokenFileHeader {
  unsigned char magic[8];
  std::uint32_t version;
  std::uint32_t token_bytes;     // 2 or 4
  std::uint64_t tokens;          // at least 1
  std::uint64_t documents;       // at least 1
  std::uint64_t trained_tokens;  // at least 1
  std::uint64_t row_length;      // that long documents were dropped for; 0: for none
  std::uint32_t vocabulary;      // ids are below it
  std::uint32_t name_bytes;      // of the tokenizer's name, UTF-8
  std::uint64_t lengths;         // entries of the histogram
  std::uint64_t tokenizer_hash;  // XXH3-64 of tokenizer.json
  unsigned char reserved[48];    // zero
  std::uint64_t checksum;        // XXH3-64 of the whole file with this field zero
};
static_assert(sizeof(TokenFileHeader) == 128 && offsetof(TokenFileHeader, checksum) == 120);

/// Where each section begins, in bytes; `end` is the size of the file.
struct TokenFileLayout {
  std::uint64_t name, tokens, loss, starts, long_documents, lengths, end;
};

/// REQUIRES: counts that a file can have, so that nothing overflows.
constexpr TokenFileLayout token_file_layout(const TokenFileHeader& header) {
  const auto aligned = [](std::uint64_t bytes) {
    return (bytes + kTokenSectionAlignment - 1) / kTokenSectionAlignment * kTokenSectionAlignment;
  };
  TokenFileLayout at{};
  at.name = sizeof(TokenFileHeader);
  at.tokens = aligned(at.name + header.name_bytes);
  at.loss = aligned(at.tokens + header.tokens * header.token_bytes);
  at.starts = aligned(at.loss + (header.tokens + 7) / 8);
  at.long_documents = aligned(at.starts + header.documents * 8);
  at.lengths = aligned(at.long_documents + header.documents);
  at.end = at.lengths + header.lengths * 16;
  return at;
}

/// llm.c's: 256 int32, of which three are used.
inline constexpr std::size_t kLlmCHeaderBytes = 1024;
struct LlmCHeader {
  std::int32_t magic, version, tokens;
};
inline constexpr std::int32_t kLlmCMagic16 = 20240520, kLlmCVersion16 = 1;  // uint16 ids, of GPT-2
inline constexpr std::int32_t kLlmCMagic32 = 20240801, kLlmCVersion32 = 7;  // uint32 ids, of Llama 3

}  // namespace penstock
