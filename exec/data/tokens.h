// Where tokens come from: the bytes of files (each byte is a token, so any vocabulary of at least 256 will do), or
// random ids. Which tokens a step trains on is a function of (seed, step, index of the sequence) alone.
//
// Thread safety: `fill` may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace penstock::exec {

inline constexpr std::int64_t kByteVocabulary = 256;
inline constexpr std::int64_t kMaxDataBytes = std::int64_t{4} << 30;

struct TokenShape {
  std::int64_t sequences = 0;        // per step
  std::int64_t sequence_length = 0;  // a row has one token more: targets are inputs shifted by one
  std::int64_t vocabulary = 0;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Writes [sequences, sequence_length + 1] for the step with this number (from 1).
  virtual void fill(std::int64_t step, std::int32_t* tokens) const = 0;
  /// For people: "README.md (12345 bytes)".
  virtual std::string describe() const = 0;
  /// Names what is trained on, so that a checkpoint can tell other data from its own: "crc32:1a2b3c4d of 12345 bytes"
  /// (of all bytes in the order in which they lie one after the other), or "random". Names and places play no part.
  virtual std::string checksum() const = 0;
};

/// Each row is a window of `bytes` at a random place. Throws InputError if they are fewer than sequence_length + 1
/// or the vocabulary is below 256; `place` starts the message.
std::unique_ptr<TokenSource> byte_tokens(std::string bytes, const std::string& place, const TokenShape& shape,
                                         std::uint64_t seed);
/// Uniform ids.
std::unique_ptr<TokenSource> random_tokens(const TokenShape& shape, std::uint64_t seed);

/// The bytes of a file, or of all text files (no zero byte in the first 4096) of a folder, in the order of their paths,
/// one after the other. Throws InputError if there is nothing, or more than kMaxDataBytes.
std::string read_data(const std::filesystem::path& path);

/// README.md and docs/*.md of the nearest folder at or above `start` that has a README.md. Throws InputError if none
/// has.
std::string read_default_data(const std::filesystem::path& start);

/// What [run].data says: a path, "random", or nothing (the default data, looked for from the scenario's folder up).
std::unique_ptr<TokenSource> open_tokens(const std::filesystem::path& data, const std::filesystem::path& scenario,
                                         const TokenShape& shape, std::uint64_t seed);

}  // namespace penstock::exec
