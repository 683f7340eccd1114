#include "exec/data/tokens.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "exec/data/packed_tokens.h"
#include "exec/data/shown_path.h"
#include "shared/error.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteVocabulary = 256;

/// Rows are windows at random places of `count` tokens, the i-th of which is `token(i)`. REQUIRES: at least one window.
template <class Token>
void fill_windows(const TokenShape& shape, std::uint64_t key, std::int64_t count, std::int64_t step,
                  std::int32_t* tokens, const Token& token) {
  const std::int64_t row = shape.sequence_length + 1;
  const auto places = static_cast<std::uint64_t>(count - row + 1);
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    const auto start =
        static_cast<std::int64_t>(random_below(key, static_cast<std::uint64_t>(step * shape.sequences + i), places));
    for (std::int64_t t = 0; t < row; ++t) *tokens++ = token(start + t);
  }
}

class ByteTokens : public TokenSource {
 public:
  ByteTokens(DataText text, const TokenShape& shape, std::uint64_t seed)
      : text_(std::move(text)),
        crc_(crc32_z(0, reinterpret_cast<const Bytef*>(text_.bytes.data()), text_.bytes.size())),
        shape_(shape),
        key_(random_key(seed, "data")) {}

  void fill(std::int64_t step, const StepRows& to) const override {
    fill_windows(shape_, key_, static_cast<std::int64_t>(text_.bytes.size()), step, to.tokens, [&](std::int64_t i) {
      return std::int32_t{static_cast<unsigned char>(text_.bytes[static_cast<std::size_t>(i)])};
    });
  }
  std::string describe() const override {
    if (text_.files == 0) return fmt::format("{} ({} bytes)", text_.place, text_.bytes.size());
    return fmt::format("{} ({} bytes in {} file{})", text_.place, text_.bytes.size(), text_.files,
                       text_.files == 1 ? "" : "s");
  }
  std::string checksum() const override { return fmt::format("crc32:{:08x} of {} bytes", crc_, text_.bytes.size()); }
  bool is_bytes() const override { return true; }
  std::vector<PassedOver> passed_over() const override { return text_.passed_over; }

 private:
  DataText text_;
  unsigned long crc_;
  TokenShape shape_;
  std::uint64_t key_;
};

class FileTokens : public TokenSource {
 public:
  FileTokens(std::unique_ptr<TokenFile> file, const TokenShape& shape, std::uint64_t seed)
      : file_(std::move(file)), shape_(shape), key_(random_key(seed, "data")) {
    if (file_->tokens() < shape.sequence_length + 1)
      throw InputError(fmt::format("{}: a sequence of {} tokens and its last target need {} tokens, there are {}",
                                   file_->path().string(), shape.sequence_length, shape.sequence_length + 1,
                                   file_->tokens()));
  }

  void fill(std::int64_t step, const StepRows& to) const override {
    file_->require_unchanged();
    fill_windows(shape_, key_, file_->tokens(), step, to.tokens, [&](std::int64_t i) { return file_->token(i); });
  }
  std::string describe() const override {
    const std::string from = file_->tokenizer().empty() ? "" : fmt::format(", tokenizer of {}", file_->tokenizer());
    return fmt::format("{} ({} tokens{})", shown_path(file_->path()), file_->tokens(), from);
  }
  std::string checksum() const override { return file_->checksum(); }
  const TokenFile* token_file() const override { return file_.get(); }

 private:
  std::unique_ptr<TokenFile> file_;
  TokenShape shape_;
  std::uint64_t key_;
};

class RandomTokens : public TokenSource {
 public:
  RandomTokens(const TokenShape& shape, std::uint64_t seed) : shape_(shape), key_(random_key(seed, "random data")) {}

  void fill(std::int64_t step, const StepRows& to) const override {
    const std::int64_t count = shape_.sequences * (shape_.sequence_length + 1);
    for (std::int64_t i = 0; i < count; ++i)
      to.tokens[i] = static_cast<std::int32_t>(random_below(key_, static_cast<std::uint64_t>(step * count + i),
                                                            static_cast<std::uint64_t>(shape_.vocabulary)));
  }
  std::string describe() const override { return "random token ids"; }
  std::string checksum() const override { return "random"; }

 private:
  TokenShape shape_;
  std::uint64_t key_;
};

}  // namespace

std::unique_ptr<TokenSource> byte_tokens(DataText text, const TokenShape& shape, std::uint64_t seed) {
  const std::string& bytes = text.bytes;
  if (static_cast<std::int64_t>(bytes.size()) < shape.sequence_length + 1) {
    std::string message =
        fmt::format("{}: a sequence of {} tokens and its last target need {} bytes of data, there are {}", text.place,
                    shape.sequence_length, shape.sequence_length + 1, bytes.size());
    for (const PassedOver& what : text.passed_over) message += "; " + in_words(what);
    throw InputError(message);
  }
  const auto outside = [&](char c) { return static_cast<unsigned char>(c) >= shape.vocabulary; };
  if (shape.vocabulary < kByteVocabulary)
    if (const auto found = std::find_if(bytes.begin(), bytes.end(), outside); found != bytes.end())
      throw InputError(fmt::format(
          "{}: bytes are the tokens, and byte {} occurs in it (first behind {} bytes); the model's "
          "vocabulary has {} ids. {} are enough for any bytes; [data] file = \"random\" works with any vocabulary",
          text.place, static_cast<unsigned char>(*found), found - bytes.begin(), shape.vocabulary, kByteVocabulary));
  return std::make_unique<ByteTokens>(std::move(text), shape, seed);
}

std::unique_ptr<TokenSource> file_tokens(const fs::path& path, TokenFormat format, const TokenShape& shape,
                                         std::uint64_t seed) {
  auto file = std::make_unique<TokenFile>(path, format, shape.vocabulary);
  if (needs_packing(*file)) return std::make_unique<PackedTokens>(std::move(file), shape, seed);
  return std::make_unique<FileTokens>(std::move(file), shape, seed);
}

std::unique_ptr<TokenSource> random_tokens(const TokenShape& shape, std::uint64_t seed) {
  return std::make_unique<RandomTokens>(shape, seed);
}

std::unique_ptr<TokenSource> open_tokens(const fs::path& data, const std::string& kind, const fs::path& scenario,
                                         const TokenShape& shape, std::uint64_t seed) {
  if (kind == "nanogpt") {
    if (data.empty())
      throw InputError(fmt::format("{}: [data] kind = \"nanogpt\" says what the data is, and there is no data",
                                   shown_path(scenario)));
    return file_tokens(data, TokenFormat::nanogpt, shape, seed);
  }
  const fs::path folder = scenario.has_parent_path() ? scenario.parent_path() : fs::path(".");
  if (data.empty()) return byte_tokens(read_default_data(folder), shape, seed);
  const bool is_random = data == "random" || data == scenario.parent_path() / "random";
  std::error_code ignored;
  if (is_random && !fs::exists(data, ignored)) return random_tokens(shape, seed);
  if (const auto format = token_format(data)) return file_tokens(data, *format, shape, seed);
  DataText text = read_data(data);
  if (is_random) text.place += ", which is there, so that \"random\" does not mean random ids";
  return byte_tokens(std::move(text), shape, seed);
}

}  // namespace penstock::exec
