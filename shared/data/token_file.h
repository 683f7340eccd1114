// Files of token ids: Penstock's own (docs/token_file.md), and the flat ones that nanoGPT and llm.c write.
//
// A file is mapped and checked whole when it is opened; afterwards nothing in it can be wrong. Who asks for its documents
// alone spares the reading of all ids. In a flat file all is one document, every token but the first is trained on, and
// a document that is longer than a row is split.
//
// Thread safety: after construction all members may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/data/mapped_file.h"

namespace penstock {

/// What is done with a document that a row cannot hold.
enum class LongDocument : std::uint8_t {
  refuse = 0,    // the file cannot be used with such rows
  truncate = 1,  // its end is left out
  split = 2,     // its pieces are documents of their own; the last token of one is the first of the next
};

/// How many documents have so many tokens.
struct LengthCount {
  std::uint64_t tokens = 0, documents = 0;
  bool operator==(const LengthCount&) const = default;
};

enum class TokenFormat {
  penstock,
  llm_c,    // 256 int32 of header; magic 20240520 (uint16 ids) or 20240801 (uint32)
  nanogpt,  // uint16 ids and nothing else, so that nothing tells it from other files: it must be asked for
};

/// By its first bytes; nothing where the file is neither Penstock's nor llm.c's, or is no file that can be read.
std::optional<TokenFormat> token_format(const std::filesystem::path& path);

/// What of a file is looked at when it is opened.
enum class TokenFileCheck {
  whole,
  documents  // neither the checksum of Penstock's own files nor ids, which may be anything then
};

/// XXH3-64 of a file's bytes, as token files have it of their tokenizer.json. Throws InputError as MappedFile.
std::uint64_t file_hash(const std::filesystem::path& path);

class TokenFile {
 public:
  /// The format is told by the first bytes. `vocabulary`: of the model, which ids and file are held against; 0: none.
  /// Throws InputError with the file and the place in it.
  TokenFile(const std::filesystem::path& path, std::int64_t vocabulary);
  /// Taken to be of this format.
  TokenFile(const std::filesystem::path& path, TokenFormat format, std::int64_t vocabulary,
            TokenFileCheck check = TokenFileCheck::whole);

  TokenFormat format() const { return format_; }
  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  /// Labels, if no document is cut or left out.
  std::int64_t trained_tokens() const { return trained_; }
  /// Every token is trained on that can be: all but the first of each document.
  bool trains_on_all() const { return trained_ == tokens_ - documents_; }
  /// Ids are below it. 0: the file does not say (flat files), and none was given.
  std::int64_t vocabulary() const { return vocabulary_; }
  /// "Qwen2.5-7B", as the file says; empty for flat files.
  const std::string& tokenizer() const { return tokenizer_; }
  /// file_hash of its tokenizer.json; 0: the file does not say (flat files).
  std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
  /// Ascending by length.
  const std::vector<LengthCount>& lengths() const { return lengths_; }

  /// REQUIRES: 0 <= i < tokens().
  std::int32_t token(std::int64_t i) const {
    return static_cast<std::int32_t>(token_bytes_ == 2 ? static_cast<const std::uint16_t*>(ids_)[i]
                                                       : static_cast<const std::uint32_t*>(ids_)[i]);
  }
  /// Whether the token is trained on as a target. Never a document's first.
  bool trained(std::int64_t i) const { return loss_ == nullptr ? i > 0 : (loss_[i / 8] >> (i % 8) & 1) != 0; }
  /// How many of the tokens in [begin, end) are.
  std::int64_t trained_in(std::int64_t begin, std::int64_t end) const;
  /// Its first token; of document documents() the end of the file.
  std::int64_t document_start(std::int64_t document) const {
    return document == documents_ ? tokens_ : starts_ == nullptr ? 0 : static_cast<std::int64_t>(starts_[document]);
  }
  LongDocument long_document(std::int64_t document) const {
    return long_documents_ == nullptr ? LongDocument::split : static_cast<LongDocument>(long_documents_[document]);
  }

  /// Of all its bytes: "xxh3:0123456789abcdef of 1000 tokens". REQUIRES: opened with TokenFileCheck::whole.
  const std::string& checksum() const { return checksum_; }
  /// See MappedFile.
  void require_unchanged() const { file_.require_unchanged(); }

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void open_penstock(std::int64_t vocabulary, TokenFileCheck check);
  void open_llm_c();
  void open_nanogpt();
  void require_checksum(std::uint64_t stored) const;
  void check_documents() const;
  void check_lengths(const std::uint64_t* stored, std::uint64_t count);
  void check_loss_bits() const;
  void check_ids() const;

  MappedFile file_;
  TokenFormat format_;
  int token_bytes_ = 2;
  std::uint64_t tokenizer_hash_ = 0;
  std::int64_t tokens_ = 0, documents_ = 1, trained_ = 0, vocabulary_ = 0;
  const void* ids_ = nullptr;
  const unsigned char* loss_ = nullptr;            // null: all but the first
  const std::uint64_t* starts_ = nullptr;          // null: one document
  const unsigned char* long_documents_ = nullptr;  // null: all are split
  std::string tokenizer_, checksum_;
  std::vector<LengthCount> lengths_;
};

}  // namespace penstock
