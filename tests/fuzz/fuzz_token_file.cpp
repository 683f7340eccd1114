// Token files: what is accepted, as it is or with its checksum made right, has ids within its vocabulary and documents
// that pack into rows of which each place is as docs/token_file.md says.
#include <cstdlib>
#include <string>

#include "shared/data/packing.h"
#include "shared/data/token_file.h"
#include "shared/error.h"
#include "tests/fuzz/input_file.h"
#include "tests/shared/data/token_file_bytes.h"

namespace {

using namespace penstock;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_file(const TokenFile& file) {
  std::int64_t trained = 0;
  for (std::int64_t i = 0; i < file.tokens(); ++i) {
    require(file.token(i) >= 0 && (file.vocabulary() == 0 || file.token(i) < file.vocabulary()));
    trained += file.trained(i) ? 1 : 0;
  }
  require(trained > 0 && trained == file.trained_tokens() && trained == file.trained_in(0, file.tokens()));
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    require(file.document_start(i) < file.document_start(i + 1));
    require(!file.trained(file.document_start(i)));
  }
}

void check_rows(const TokenFile& file, std::int64_t row_length) {
  const RowPacking packing(file, row_length, 1);
  PackedRows rows;
  const std::int64_t count = packing.report().rows;
  packing.fill(1, count, rows);
  require(rows.trained == packing.report().trained_tokens);
  for (const auto* list : {&rows.tokens, &rows.labels, &rows.positions, &rows.document_starts})
    require(static_cast<std::int64_t>(list->size()) == count * row_length);
  for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
    const std::int32_t label = rows.labels[i];
    require(label == kIgnoredLabel || (label >= 0 && (file.vocabulary() == 0 || label < file.vocabulary())));
    require(rows.positions[i] + rows.document_starts[i] ==
            static_cast<std::int32_t>(i % static_cast<std::size_t>(row_length)));
  }
}

template <class Open>
void check(const Open& open) {
  try {
    const TokenFile file = open();
    check_file(file);
    for (const std::int64_t row_length : {3, 64}) try {
        check_rows(file, row_length);
      } catch (const InputError&) {
      }
  } catch (const InputError&) {
  }
}

/// What a scenario takes of a file: how its documents pack, whatever its ids are.
void check_documents(const std::filesystem::path& path) {
  try {
    const TokenFile file(path, TokenFormat::penstock, 0, TokenFileCheck::documents);
    const RowPacking packing(file, 64, 1);
    require(packing.report().rows > 0 && packing.report().squared_lengths > 0);
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const InputFolder folder;
  std::string bytes(as_text(data, size));
  const std::filesystem::path path = folder.write("any.tokens", bytes);
  check([&] { return TokenFile(path, 0); });
  check([&] { return TokenFile(path, TokenFormat::nanogpt, 30000); });
  check_documents(path);
  seal(bytes);
  folder.write("any.tokens", bytes);
  check([&] { return TokenFile(path, 0); });
  return 0;
}
