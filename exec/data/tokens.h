// Where tokens come from: a file of token ids, the bytes of files (each byte is a token, so any vocabulary of at least
// 256 will do), or random ids. Which tokens a step trains on is a function of (seed, step, index of the sequence)
// alone.
//
// Thread safety: `fill` may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/data/step_rows.h"
#include "exec/data/text_files.h"
#include "shared/data/token_file.h"
#include "shared/model/activations.h"

namespace penstock::exec {

struct TokenShape {
  std::int64_t sequences = 0;  // per step
  std::int64_t sequence_length = 0;
  std::int64_t vocabulary = 0;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual BatchKind rows() const { return BatchKind::windows; }
  /// Of packed rows, see BatchShape.
  virtual double squared_lengths() const { return 0; }
  /// Writes the rows of the step with this number (from 1); `to` has what rows of this kind have.
  virtual void fill(std::int64_t step, const StepRows& to) const = 0;
  /// For people: "README.md (12345 bytes)".
  virtual std::string describe() const = 0;
  /// Names what is trained on, so that a checkpoint can tell other data from its own: "crc32:1a2b3c4d of 12345 bytes"
  /// (of all bytes in the order in which they lie one after the other), "xxh3:0123456789abcdef of 12345 tokens", or
  /// "random". Names and places play no part.
  virtual std::string checksum() const = 0;
  /// Whether each byte of a text is a token.
  virtual bool is_bytes() const { return false; }
  /// nullptr where no file of tokens is trained on.
  virtual const TokenFile* token_file() const { return nullptr; }
  /// Of what was asked for, what is not trained on.
  virtual std::vector<PassedOver> passed_over() const { return {}; }
};

/// Each row is a window of the text's bytes at a random place. Throws InputError if they are fewer than
/// sequence_length + 1, or if a byte occurs that is not in the vocabulary.
std::unique_ptr<TokenSource> byte_tokens(DataText text, const TokenShape& shape, std::uint64_t seed);
/// Each row is a window of the file's tokens at a random place. A file that has several documents or tokens that are
/// not trained on, which windows do not honour, is packed (packed_tokens.h). Throws InputError as TokenFile and
/// RowPacking do, and if the file has fewer tokens than a window.
std::unique_ptr<TokenSource> file_tokens(const std::filesystem::path& path, TokenFormat format, const TokenShape& shape,
                                         std::uint64_t seed);
/// Uniform ids.
std::unique_ptr<TokenSource> random_tokens(const TokenShape& shape, std::uint64_t seed);

/// What [data] file says: a path, nothing (the default data, looked for from the scenario's folder up), or "random",
/// which arrives with the scenario's folder in front and means random ids unless there is such a file. Files of tokens
/// that name themselves so (token_format) are read as that; `kind` is [data] kind: "nanogpt" says it of the others.
std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& data, const std::string& kind,
                                         const std::filesystem::path& scenario, const TokenShape& shape,
                                         std::uint64_t seed);

}  // namespace penstock::exec
