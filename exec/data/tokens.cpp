#include "exec/data/tokens.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "shared/random.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteVocabulary = 256;

class ByteTokens : public TokenSource {
 public:
  ByteTokens(DataText text, const TokenShape& shape, std::uint64_t seed)
      : text_(std::move(text)),
        crc_(crc32_z(0, reinterpret_cast<const Bytef*>(text_.bytes.data()), text_.bytes.size())),
        shape_(shape),
        key_(random_key(seed, "data")) {}

  void fill(std::int64_t step, std::int32_t* tokens) const override {
    const std::string& bytes = text_.bytes;
    const std::int64_t row = shape_.sequence_length + 1;
    const auto places = static_cast<std::uint64_t>(static_cast<std::int64_t>(bytes.size()) - row + 1);
    for (std::int64_t i = 0; i < shape_.sequences; ++i) {
      const std::uint64_t start = random_below(key_, static_cast<std::uint64_t>(step * shape_.sequences + i), places);
      for (std::int64_t t = 0; t < row; ++t)
        *tokens++ = static_cast<unsigned char>(bytes[start + static_cast<std::uint64_t>(t)]);
    }
  }
  std::string describe() const override {
    if (text_.files == 0) return fmt::format("{} ({} bytes)", text_.place, text_.bytes.size());
    return fmt::format("{} ({} bytes in {} file{})", text_.place, text_.bytes.size(), text_.files,
                       text_.files == 1 ? "" : "s");
  }
  std::string checksum() const override { return fmt::format("crc32:{:08x} of {} bytes", crc_, text_.bytes.size()); }
  std::vector<PassedOver> passed_over() const override { return text_.passed_over; }

 private:
  DataText text_;
  unsigned long crc_;
  TokenShape shape_;
  std::uint64_t key_;
};

class RandomTokens : public TokenSource {
 public:
  RandomTokens(const TokenShape& shape, std::uint64_t seed) : shape_(shape), key_(random_key(seed, "random data")) {}

  void fill(std::int64_t step, std::int32_t* tokens) const override {
    const std::int64_t count = shape_.sequences * (shape_.sequence_length + 1);
    for (std::int64_t i = 0; i < count; ++i)
      tokens[i] = static_cast<std::int32_t>(random_below(key_, static_cast<std::uint64_t>(step * count + i),
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
          "vocabulary has {} ids. {} are enough for any bytes; data = \"random\" works with any vocabulary",
          text.place, static_cast<unsigned char>(*found), found - bytes.begin(), shape.vocabulary, kByteVocabulary));
  return std::make_unique<ByteTokens>(std::move(text), shape, seed);
}

std::unique_ptr<TokenSource> random_tokens(const TokenShape& shape, std::uint64_t seed) {
  return std::make_unique<RandomTokens>(shape, seed);
}

std::unique_ptr<TokenSource> open_tokens(const fs::path& data, const fs::path& scenario, const TokenShape& shape,
                                         std::uint64_t seed) {
  const fs::path folder = scenario.has_parent_path() ? scenario.parent_path() : fs::path(".");
  if (data.empty()) return byte_tokens(read_default_data(folder), shape, seed);
  const bool is_random = data == "random" || data == scenario.parent_path() / "random";
  std::error_code ignored;
  if (is_random && !fs::exists(data, ignored)) return random_tokens(shape, seed);
  DataText text = read_data(data);
  if (is_random) text.place += ", which is there, so that \"random\" does not mean random ids";
  return byte_tokens(std::move(text), shape, seed);
}

}  // namespace penstock::exec
