#include "exec/data/model_tokenizer.h"

#include <fmt/format.h>

#include <cstdint>

#include "exec/data/shown_path.h"
#include "shared/error.h"
#include "shared/path_kind.h"

namespace penstock::exec {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";

}  // namespace

std::string check_tokenizer(const TokenFile& file, const std::vector<std::filesystem::path>& folders) {
  if (file.tokenizer_hash() == 0) return "";
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path own = folder / kTokenizerFile;
    if (!is_there(own)) continue;
    const std::uint64_t hash = file_hash(own);
    if (hash == file.tokenizer_hash()) return "";
    throw InputError(
        fmt::format("{}: was made with another tokenizer than the model's: with {} of {} (XXH3-64 {:016x}), and {} has "
                    "{:016x}, under which the same ids are other texts; prepare it with scripts/prepare --model {}",
                    file.path().string(), kTokenizerFile, file.tokenizer(), file.tokenizer_hash(), shown_path(own),
                    hash, shown_path(folder)));
  }
  return fmt::format(
      "{}: was made with the tokenizer of {}; there is no {} with the model, so nothing tells whether "
      "that is its own",
      shown_path(file.path()), file.tokenizer(), kTokenizerFile);
}

std::string bytes_beside_tokenizer(const std::string& text, const std::vector<std::filesystem::path>& folders) {
  for (const std::filesystem::path& folder : folders)
    if (const std::filesystem::path own = folder / kTokenizerFile; is_there(own))
      return fmt::format(
          "bytes are the tokens: {}; the model has a tokenizer, {}, under which the same ids are other texts; make a "
          "file of its own tokens with scripts/prepare --model {}",
          text, shown_path(own), shown_path(folder));
  return "";
}

}  // namespace penstock::exec
