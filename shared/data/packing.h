// Which documents of a token file make the rows of a step: a function of (file, row length, seed, step number) alone,
// so that a resumed run needs no position and a prediction is of the data that is trained on.
//
// A document of n tokens takes n - 1 places of a row: token i stands in place i and has token i + 1 for its target; the
// last token is only a target. A document that is longer is treated as the file says (LongDocument); what is left of it
// counts as a document here, and one without a token that is trained on is left out.
//
// Rows are made by best fit, longest document first: each goes into the fullest row that has room for it. So only
// lengths decide the rows' shapes, which are therefore the same in every epoch; which of the documents of one length
// takes which place, and the order of the rows, are shuffled by seed and epoch. Each epoch has every document once.
// Rows of steps follow each other without a gap: the last step of an epoch takes its missing rows from the next.
//
// Making it takes O(n log n) time and 24 bytes for each document; a row is then found in O(1) from its number.
//
// Thread safety: after construction all members may be called from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/data/token_file.h"
#include "shared/ignored_label.h"

namespace penstock {

/// Some rows, one after the other; each list has rows x row_length entries. The places behind a row's last document are
/// a document of their own: token 0, no labels.
struct PackedRows {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;           // of the next token, or kIgnoredLabel
  std::vector<std::int32_t> positions;        // in the document, from 0
  std::vector<std::int32_t> document_starts;  // the place in the row where the place's document begins
  std::int64_t trained = 0;                   // labels that count: what a step's loss is divided by
};

/// As PackingReport::squared_lengths, of these rows alone. REQUIRES: rows of that length, one at least.
double squared_lengths(const PackedRows& rows, std::int64_t row_length);

/// Of one epoch.
struct PackingReport {
  std::int64_t rows = 0, documents = 0;  // documents: pieces of split ones each count
  std::int64_t places = 0;               // taken by documents, of rows x row_length
  std::int64_t trained_tokens = 0;
  std::int64_t truncated = 0, split = 0;  // documents of the file
  std::int64_t left_out = 0;              // without a token that is trained on, or what is left of them
  double squared_lengths = 0;             // of the documents of a row added up, what is behind the last one included;
                                          // mean over the rows
};

/// Whether windows of the file would not honour what it says: it has several documents, or tokens that are not trained
/// on.
inline bool needs_packing(const TokenFile& file) { return file.documents() > 1 || !file.trains_on_all(); }

/// The same by the file's header, before anything else of it is read. False where it is not Penstock's own, or not there.
bool header_needs_packing(const std::filesystem::path& path);

class RowPacking {
 public:
  /// `file` must outlive it. Throws InputError if the file has a document that is longer than a row and must not be
  /// cut, or if nothing is left to train on. REQUIRES: 1 <= row_length < 2^31.
  RowPacking(const TokenFile& file, std::int64_t row_length, std::uint64_t seed);

  std::int64_t row_length() const { return row_length_; }
  const PackingReport& report() const { return report_; }
  /// The rows of the step with this number (from 1), of `rows_per_step` rows each. What `rows` had is replaced.
  void fill(std::int64_t step, std::int64_t rows_per_step, PackedRows& rows) const;

 private:
  struct Piece {
    std::int64_t first;   // token of the file
    std::int32_t places;  // in a row
  };
  void take_document(std::int64_t document);
  void take_piece(std::int64_t first, std::int64_t places);
  void sort_pieces();
  void make_rows();
  const Piece& piece(std::uint32_t slot, std::uint64_t epoch) const;
  void fill_row(std::uint64_t row, std::uint64_t epoch, PackedRows& rows) const;

  const TokenFile& file_;
  std::int64_t row_length_;
  std::uint64_t seed_;
  PackingReport report_;
  std::vector<Piece> pieces_;             // longest first; slot i of the rows' shapes holds one as long as pieces_[i]
  std::vector<std::uint32_t> row_slots_;  // row by row
  std::vector<std::uint32_t> row_begin_;  // in row_slots_; one entry more than rows
};

/// A permutation of [0, count): where it puts `index`. Another one for each key. REQUIRES: index < count.
std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key);

}  // namespace penstock
