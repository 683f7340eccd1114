// Token files for tests, put together field by field, so that each can be wrong.
#pragma once

#include <xxhash.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "shared/data/token_file.h"
#include "shared/data/token_file_header.h"

namespace penstock {

struct TestDocument {
  std::vector<std::uint32_t> tokens;
  std::vector<bool> trained;  // one for each token; empty: all but the first
  LongDocument if_long = LongDocument::refuse;
};

/// Makes the checksum right again.
inline void seal(std::string& bytes) {
  if (bytes.size() < sizeof(TokenFileHeader)) return;
  TokenFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.checksum = 0;
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.checksum = XXH3_64bits(bytes.data(), bytes.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
}

template <class Value>
void put(std::string& bytes, std::uint64_t offset, const Value& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

inline TokenFileHeader header_of(const std::string& bytes) {
  TokenFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

/// A file of these documents, as docs/token_file.md has it.
inline std::string token_file_bytes(const std::vector<TestDocument>& documents, std::uint32_t vocabulary,
                                    std::uint32_t token_bytes = 2, const std::string& name = "test") {
  TokenFileHeader header{};
  std::memcpy(header.magic, kTokenFileMagic, sizeof(kTokenFileMagic));
  header.version = kTokenFileVersion;
  header.token_bytes = token_bytes;
  header.vocabulary = vocabulary;
  header.name_bytes = static_cast<std::uint32_t>(name.size());
  header.documents = documents.size();
  std::map<std::uint64_t, std::uint64_t> lengths;
  for (const TestDocument& document : documents) {
    header.tokens += document.tokens.size();
    ++lengths[document.tokens.size()];
  }
  header.lengths = lengths.size();
  const TokenFileLayout at = token_file_layout(header);
  std::string bytes(at.end, '\0');
  std::memcpy(bytes.data() + at.name, name.data(), name.size());
  std::uint64_t token = 0, number = 0, entry = at.lengths;
  for (const TestDocument& document : documents) {
    put(bytes, at.starts + 8 * number, token);
    put(bytes, at.long_documents + number, document.if_long);
    ++number;
    for (std::size_t i = 0; i < document.tokens.size(); ++i, ++token) {
      std::memcpy(bytes.data() + at.tokens + token * token_bytes, &document.tokens[i], token_bytes);
      if (!(document.trained.empty() ? i > 0 : document.trained[i])) continue;
      const auto bit = static_cast<unsigned>(bytes[at.loss + token / 8]) | 1u << (token % 8);
      bytes[at.loss + token / 8] = static_cast<char>(bit);
      ++header.trained_tokens;
    }
  }
  for (const auto& [length, count] : lengths) {
    put(bytes, entry, length);
    put(bytes, entry + 8, count);
    entry += 16;
  }
  put(bytes, 0, header);
  seal(bytes);
  return bytes;
}

/// llm.c's.
inline std::string llm_c_bytes(const std::vector<std::uint32_t>& tokens, bool wide) {
  const LlmCHeader header{wide ? kLlmCMagic32 : kLlmCMagic16, wide ? kLlmCVersion32 : kLlmCVersion16,
                          static_cast<std::int32_t>(tokens.size())};
  std::string bytes(kLlmCHeaderBytes, '\0');
  put(bytes, 0, header);
  for (const std::uint32_t token : tokens) bytes.append(reinterpret_cast<const char*>(&token), wide ? 4 : 2);
  return bytes;
}

}  // namespace penstock
