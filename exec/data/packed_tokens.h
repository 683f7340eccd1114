// Rows of whole documents (shared/data/packing.h): what a file of tokens is trained on that has several documents, or
// tokens that are not trained on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/data/tokens.h"
#include "shared/data/packing.h"
#include "shared/data/token_file.h"

namespace penstock::exec {

class PackedTokens : public TokenSource {
 public:
  /// Throws InputError as RowPacking does.
  PackedTokens(std::unique_ptr<TokenFile> file, const TokenShape& shape, std::uint64_t seed);

  BatchKind rows() const override { return BatchKind::packed; }
  double squared_lengths() const override { return packing_.report().squared_lengths; }
  void fill(std::int64_t step, const StepRows& rows) const override;
  std::string describe() const override;
  std::string checksum() const override { return file_->checksum(); }
  const TokenFile* token_file() const override { return file_.get(); }

 private:
  std::unique_ptr<TokenFile> file_;
  RowPacking packing_;
  std::int64_t sequences_;
};

}  // namespace penstock::exec
