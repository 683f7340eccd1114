#include "shared/data/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "shared/data/token_file_header.h"
#include "shared/error.h"
#include "shared/random.h"

namespace penstock {
namespace {

constexpr int kFeistelRounds = 4;

std::uint64_t epoch_key(std::uint64_t seed, const char* name, std::uint64_t epoch, std::uint64_t part) {
  return random64(random64(random_key(seed, name), epoch), part);
}

}  // namespace

std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key) {
  // A Feistel network over the smallest even number of bits that hold `count`, followed until it leads back below it.
  const int half = std::max(1, static_cast<int>(std::bit_width(count - 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < kFeistelRounds; ++round) {
      const std::uint64_t next = left ^ (random64(key, right * kFeistelRounds + round) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

bool header_needs_packing(const std::filesystem::path& path) {
  if (token_format(path) != TokenFormat::penstock) return false;
  const MappedFile file(path);
  TokenFileHeader header;
  if (file.bytes().size() < sizeof(header)) return false;
  std::memcpy(&header, file.bytes().data(), sizeof(header));
  return header.documents != 1 || header.trained_tokens != header.tokens - 1;
}

RowPacking::RowPacking(const TokenFile& file, std::int64_t row_length, std::uint64_t seed)
    : file_(file), row_length_(row_length), seed_(seed) {
  for (std::int64_t i = 0; i < file.documents(); ++i) take_document(i);
  if (pieces_.empty())
    throw InputError(
        fmt::format("{}: nothing is left to train on in rows of {} tokens: of {} documents {} were cut, and no token "
                    "that is trained on is in what is left",
                    file.path().string(), row_length, file.documents(), report_.truncated));
  report_.documents = static_cast<std::int64_t>(pieces_.size());
  sort_pieces();
  make_rows();
  report_.rows = static_cast<std::int64_t>(row_begin_.size()) - 1;
}

void RowPacking::take_document(std::int64_t document) {
  const std::int64_t first = file_.document_start(document);
  const std::int64_t places = file_.document_start(document + 1) - first - 1;
  if (places <= row_length_) return take_piece(first, places);
  switch (file_.long_document(document)) {
    case LongDocument::refuse:
      throw InputError(
          fmt::format("{}: document {} (from token {}) has {} tokens, a row of {} holds {}: train with longer rows, or "
                      "prepare the file with --row-length {}, which drops such documents (and cuts them with "
                      "--truncate)",
                      file_.path().string(), document, first, places + 1, row_length_, row_length_ + 1, row_length_));
    case LongDocument::truncate:
      ++report_.truncated;
      take_piece(first, row_length_);
      break;
    case LongDocument::split:
      ++report_.split;
      for (std::int64_t at = 0; at < places; at += row_length_)
        take_piece(first + at, std::min(row_length_, places - at));
      break;
  }
}

void RowPacking::take_piece(std::int64_t first, std::int64_t places) {
  const std::int64_t trained = file_.trained_in(first + 1, first + 1 + places);
  if (trained == 0) {
    ++report_.left_out;
    return;
  }
  if (pieces_.size() == UINT32_MAX)
    throw InputError(fmt::format("{}: makes more than {} documents in rows of {} tokens: too many to be packed",
                                 file_.path().string(), UINT32_MAX, row_length_));
  report_.places += places;
  report_.trained_tokens += trained;
  pieces_.push_back({first, static_cast<std::int32_t>(places)});
}

void RowPacking::sort_pieces() {
  // The file's order decides between equals, as the first tokens ascend.
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.places != b.places ? a.places > b.places : a.first < b.first;
  });
}

void RowPacking::make_rows() {
  std::map<std::int64_t, std::vector<std::uint32_t>> rows_with_room;  // by places that are free, at least 1
  std::vector<std::uint32_t> row_of(pieces_.size());
  std::uint32_t rows = 0;
  const auto squared = [](std::int64_t length) { return static_cast<double>(length) * static_cast<double>(length); };
  for (std::size_t slot = 0; slot < pieces_.size(); ++slot) {
    const std::int64_t places = pieces_[slot].places;
    std::int64_t room = row_length_;
    const auto best = rows_with_room.lower_bound(places);
    if (best == rows_with_room.end()) {
      row_of[slot] = rows++;
    } else {
      room = best->first;
      row_of[slot] = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) rows_with_room.erase(best);
    }
    if (room > places) rows_with_room[room - places].push_back(row_of[slot]);
    report_.squared_lengths += squared(places);
  }
  for (const auto& [room, with_room] : rows_with_room)
    report_.squared_lengths += static_cast<double>(with_room.size()) * squared(room);
  report_.squared_lengths /= rows;
  row_begin_.assign(std::size_t{rows} + 1, 0);
  for (const std::uint32_t row : row_of) ++row_begin_[row + 1];
  for (std::size_t row = 0; row < rows; ++row) row_begin_[row + 1] += row_begin_[row];
  row_slots_.resize(pieces_.size());
  std::vector<std::uint32_t> next(row_begin_.begin(), row_begin_.end() - 1);
  for (std::size_t slot = 0; slot < pieces_.size(); ++slot)
    row_slots_[next[row_of[slot]]++] = static_cast<std::uint32_t>(slot);
}

const RowPacking::Piece& RowPacking::piece(std::uint32_t slot, std::uint64_t epoch) const {
  const std::int32_t places = pieces_[slot].places;
  const auto longer = [](const Piece& a, std::int32_t b) { return a.places > b; };
  const auto shorter = [](std::int32_t a, const Piece& b) { return a > b.places; };
  const auto begin = std::lower_bound(pieces_.begin(), pieces_.end(), places, longer);
  const auto end = std::upper_bound(begin, pieces_.end(), places, shorter);
  const auto at = static_cast<std::uint64_t>(pieces_.begin() + slot - begin);
  const std::uint64_t key = epoch_key(seed_, "documents of a length", epoch, static_cast<std::uint64_t>(places));
  return begin[static_cast<std::ptrdiff_t>(permuted(at, static_cast<std::uint64_t>(end - begin), key))];
}

void RowPacking::fill(std::int64_t step, std::int64_t rows_per_step, PackedRows& rows) const {
  rows = {};
  const auto entries = static_cast<std::size_t>(rows_per_step * row_length_);
  for (std::vector<std::int32_t>* list : {&rows.tokens, &rows.labels, &rows.positions, &rows.document_starts})
    list->reserve(entries);
  const auto count = static_cast<std::uint64_t>(report_.rows);
  for (std::int64_t i = 0; i < rows_per_step; ++i) {
    const auto number = static_cast<std::uint64_t>((step - 1) * rows_per_step + i);
    const std::uint64_t epoch = number / count;
    fill_row(permuted(number % count, count, epoch_key(seed_, "rows", epoch, 0)), epoch, rows);
  }
}

double squared_lengths(const PackedRows& rows, std::int64_t row_length) {
  double squares = 0;  // of n places, each 2 i + 1: n^2
  for (const std::int32_t position : rows.positions) squares += 2.0 * position + 1;
  return squares * static_cast<double>(row_length) / static_cast<double>(rows.positions.size());
}

void RowPacking::fill_row(std::uint64_t row, std::uint64_t epoch, PackedRows& rows) const {
  std::int32_t place = 0;
  for (std::uint32_t i = row_begin_[row]; i < row_begin_[row + 1]; ++i) {
    const Piece& document = piece(row_slots_[i], epoch);
    const std::int32_t start = place;
    for (std::int32_t position = 0; position < document.places; ++position, ++place) {
      const std::int64_t at = document.first + position;
      const bool trained = file_.trained(at + 1);
      rows.trained += trained ? 1 : 0;
      rows.tokens.push_back(file_.token(at));
      rows.labels.push_back(trained ? file_.token(at + 1) : kIgnoredLabel);
      rows.positions.push_back(position);
      rows.document_starts.push_back(start);
    }
  }
  const std::int32_t start = place;
  for (; place < row_length_; ++place) {
    rows.tokens.push_back(0);
    rows.labels.push_back(kIgnoredLabel);
    rows.positions.push_back(place - start);
    rows.document_starts.push_back(start);
  }
}

}  // namespace penstock
