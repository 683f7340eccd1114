#include "exec/data/packed_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/data/shown_path.h"

namespace penstock::exec {

PackedTokens::PackedTokens(std::unique_ptr<TokenFile> file, const TokenShape& shape, std::uint64_t seed)
    : file_(std::move(file)), packing_(*file_, shape.sequence_length, seed), sequences_(shape.sequences) {}

void PackedTokens::fill(std::int64_t step, const StepRows& rows) const {
  file_->require_unchanged();
  PackedRows packed;
  packing_.fill(step, sequences_, packed);
  std::copy(packed.tokens.begin(), packed.tokens.end(), rows.tokens);
  std::copy(packed.labels.begin(), packed.labels.end(), rows.labels);
  std::copy(packed.document_starts.begin(), packed.document_starts.end(), rows.document_starts);
}

std::string PackedTokens::describe() const {
  const PackingReport& report = packing_.report();
  const double full = static_cast<double>(report.places) / static_cast<double>(report.rows * packing_.row_length());
  std::string text =
      fmt::format("{} ({} tokens in {} documents", shown_path(file_->path()), file_->tokens(), file_->documents());
  if (!file_->tokenizer().empty()) text += fmt::format(", tokenizer of {}", file_->tokenizer());
  text += fmt::format("), packed into {} rows, {:.1f} % full, {} tokens trained on", report.rows, 100 * full,
                      report.trained_tokens);
  if (sequences_ > report.rows)
    text += fmt::format("; a step of {} rows goes through them {:.1f} times", sequences_,
                        static_cast<double>(sequences_) / static_cast<double>(report.rows));
  for (const auto& [count, what] : {std::pair{report.truncated, "truncated"}, std::pair{report.split, "split"},
                                    std::pair{report.left_out, "left out, for nothing of them is trained on"}})
    if (count > 0) text += fmt::format("; {} {}", count, what);
  return text;
}

}  // namespace penstock::exec
