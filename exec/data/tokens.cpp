#include "exec/data/tokens.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "exec/data/random.h"
#include "shared/error.h"
#include "shared/files.h"

namespace penstock::exec {
namespace {

namespace fs = std::filesystem;

class ByteTokens : public TokenSource {
 public:
  ByteTokens(std::string bytes, std::string place, const TokenShape& shape, std::uint64_t seed)
      : bytes_(std::move(bytes)),
        crc_(crc32_z(0, reinterpret_cast<const Bytef*>(bytes_.data()), bytes_.size())),
        place_(std::move(place)),
        shape_(shape),
        key_(random_key(seed, "data")) {}

  void fill(std::int64_t step, std::int32_t* tokens) const override {
    const std::int64_t row = shape_.sequence_length + 1;
    const auto places = static_cast<std::uint64_t>(static_cast<std::int64_t>(bytes_.size()) - row + 1);
    for (std::int64_t i = 0; i < shape_.sequences; ++i) {
      const std::uint64_t start = random_below(key_, static_cast<std::uint64_t>(step * shape_.sequences + i), places);
      for (std::int64_t t = 0; t < row; ++t)
        *tokens++ = static_cast<unsigned char>(bytes_[start + static_cast<std::uint64_t>(t)]);
    }
  }
  std::string describe() const override { return fmt::format("{} ({} bytes)", place_, bytes_.size()); }
  std::string checksum() const override { return fmt::format("crc32:{:08x} of {} bytes", crc_, bytes_.size()); }

 private:
  std::string bytes_;
  unsigned long crc_;
  std::string place_;
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

bool is_text(const std::string& bytes) { return bytes.find('\0') >= std::min<std::size_t>(bytes.size(), 4096); }

std::string join_files(std::vector<fs::path> files, const std::string& place) {
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    const std::string bytes = read_text_file(file, kMaxDataBytes);
    if (!is_text(bytes)) continue;
    if (static_cast<std::int64_t>(all.size() + bytes.size()) > kMaxDataBytes)
      throw InputError(fmt::format("{}: the files together have more than {} bytes, the most that data may have", place,
                                   kMaxDataBytes));
    all += bytes;
  }
  return all;
}

}  // namespace

std::unique_ptr<TokenSource> byte_tokens(std::string bytes, const std::string& place, const TokenShape& shape,
                                         std::uint64_t seed) {
  if (shape.vocabulary < kByteVocabulary)
    throw InputError(
        fmt::format("{}: bytes are the tokens, so the model's vocabulary must be at least {}; it is {} (data = "
                    "\"random\" works with any)",
                    place, kByteVocabulary, shape.vocabulary));
  if (static_cast<std::int64_t>(bytes.size()) < shape.sequence_length + 1)
    throw InputError(fmt::format("{}: a sequence of {} tokens and its last target need {} bytes of data, there are {}",
                                 place, shape.sequence_length, shape.sequence_length + 1, bytes.size()));
  return std::make_unique<ByteTokens>(std::move(bytes), place, shape, seed);
}

std::unique_ptr<TokenSource> random_tokens(const TokenShape& shape, std::uint64_t seed) {
  return std::make_unique<RandomTokens>(shape, seed);
}

std::string read_data(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return read_text_file(path, kMaxDataBytes);
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->is_regular_file(error)) files.push_back(at->path());
  if (error)
    throw InputError(fmt::format(
        "{}: cannot be read as data: {}; name a file, a folder that can be read to its bottom, or \"random\"",
        path.string(), error.message()));
  std::string bytes = join_files(std::move(files), path.string());
  if (bytes.empty())
    throw InputError(fmt::format("{}: the folder has no text files to take tokens from", path.string()));
  return bytes;
}

std::string read_default_data(const fs::path& start) {
  std::error_code error;
  fs::path folder = fs::absolute(start, error);
  while (!fs::is_regular_file(folder / "README.md", error)) {
    if (folder == folder.parent_path())
      throw InputError(
          fmt::format("{}: [run].data is empty and no folder at or above has a README.md to take tokens from; name a "
                      "file or folder, or \"random\"",
                      start.string()));
    folder = folder.parent_path();
  }
  std::vector<fs::path> files{folder / "README.md"};
  for (fs::directory_iterator at(folder / "docs", error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".md" && at->is_regular_file(error)) files.push_back(at->path());
  return join_files(std::move(files), folder.string());
}

std::unique_ptr<TokenSource> open_tokens(const fs::path& data, const fs::path& scenario, const TokenShape& shape,
                                         std::uint64_t seed) {
  if (data.empty()) {
    const fs::path folder = scenario.has_parent_path() ? scenario.parent_path() : fs::path(".");
    return byte_tokens(read_default_data(folder), "README.md and docs", shape, seed);
  }
  // The scenario reader makes paths relative to its folder; "random" arrives with that folder in front.
  if (data.filename() == "random" && !fs::exists(data)) return random_tokens(shape, seed);
  return byte_tokens(read_data(data), data.string(), shape, seed);
}

}  // namespace penstock::exec
