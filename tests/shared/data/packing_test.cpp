#include "shared/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/random.h"
#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

using List = std::vector<std::int32_t>;

/// Documents of so many tokens, whose ids say where they come from: document i has i * 100, i * 100 + 1, ...
std::vector<TestDocument> numbered(const std::vector<std::size_t>& lengths, LongDocument if_long) {
  std::vector<TestDocument> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    TestDocument document;
    document.if_long = if_long;
    for (std::size_t t = 0; t < lengths[i]; ++t) document.tokens.push_back(static_cast<std::uint32_t>(i * 100 + t));
    documents.push_back(document);
  }
  return documents;
}

/// Between 50 and 2000 tokens, uniform in the logarithm; the ids of document i are all i.
std::vector<TestDocument> log_uniform(std::size_t count) {
  std::vector<TestDocument> documents(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(random_below(1, i, 1 << 20)) / (1 << 20);
    documents[i].tokens.assign(static_cast<std::size_t>(50 * std::pow(40.0, share)), static_cast<std::uint32_t>(i));
  }
  return documents;
}

struct Packed {
  TemporaryFolder folder;
  TokenFile file;
  RowPacking packing;
  Packed(const std::vector<TestDocument>& documents, std::int64_t row_length, std::uint64_t seed = 1)
      : file(folder.write("f", token_file_bytes(documents, 1 << 20, 4)), 0), packing(file, row_length, seed) {}
  PackedRows step(std::int64_t step, std::int64_t rows) const {
    PackedRows filled;
    packing.fill(step, rows, filled);
    return filled;
  }
};

/// The rows of one step, each as its tokens, sorted.
std::vector<List> sorted_rows(const PackedRows& rows, std::size_t row_length) {
  std::vector<List> all;
  for (std::size_t at = 0; at < rows.tokens.size(); at += row_length)
    all.emplace_back(rows.tokens.begin() + static_cast<std::ptrdiff_t>(at),
                     rows.tokens.begin() + static_cast<std::ptrdiff_t>(at + row_length));
  std::sort(all.begin(), all.end());
  return all;
}

// Places 7, 6, 5, 4, 3 into rows of 10: 7, 6 and 5 open rows with 3, 4 and 5 places left; 4 fills the second, 3 the
// first.
TEST(Packing, PutsEachIntoTheFullestRowThatHasRoom) {
  const Packed packed(numbered({7, 5, 4, 8, 6}, LongDocument::refuse), 10);
  EXPECT_EQ(packed.packing.report().rows, 3);
  EXPECT_EQ(packed.packing.report().places, 25);
  // 6 and 4, 7 and 3, 5 and what is behind it.
  EXPECT_DOUBLE_EQ(packed.packing.report().squared_lengths, (36 + 16 + 49 + 9 + 25 + 25) / 3.0);
  PackedRows rows;
  packed.packing.fill(1, 3, rows);
  EXPECT_DOUBLE_EQ(squared_lengths(rows, 10), (36 + 16 + 49 + 9 + 25 + 25) / 3.0);
  EXPECT_EQ(packed.packing.report().trained_tokens, 25);
  EXPECT_EQ(sorted_rows(packed.step(1, 3), 10), (std::vector<List>{{0, 1, 2, 3, 4, 5, 100, 101, 102, 103},
                                                                   {300, 301, 302, 303, 304, 305, 306, 200, 201, 202},
                                                                   {400, 401, 402, 403, 404, 0, 0, 0, 0, 0}}));
}

// Places 6, 6 and 6: three rows, each with 4 places behind its document.
TEST(Packing, CountsWhatIsFreeInEachOfTheRowsThatAreAlike) {
  const Packed packed(numbered({7, 7, 7}, LongDocument::refuse), 10);
  EXPECT_EQ(packed.packing.report().rows, 3);
  EXPECT_DOUBLE_EQ(packed.packing.report().squared_lengths, 36 + 16);
  EXPECT_DOUBLE_EQ(squared_lengths(packed.step(1, 3), 10), 36 + 16);
}

TEST(Packing, LabelsAreTheNextTokensThatAreTrainedOn) {
  const Packed packed({{{10, 11, 12, 13}, {false, false, true, true}}, {{20, 21, 22}, {false, true, false}}}, 7);
  const PackedRows rows = packed.step(1, 1);
  EXPECT_EQ(rows.tokens, (List{10, 11, 12, 20, 21, 0, 0}));
  EXPECT_EQ(rows.labels, (List{-100, 12, 13, 21, -100, -100, -100}));
  EXPECT_EQ(rows.positions, (List{0, 1, 2, 0, 1, 0, 1}));
  EXPECT_EQ(rows.document_starts, (List{0, 0, 0, 3, 3, 5, 5}));
  EXPECT_EQ(rows.trained, 3);
}

TEST(Packing, EveryDocumentOnceInEachEpochAndNoRowTooLong) {
  const std::vector<TestDocument> documents = log_uniform(2000);
  const Packed packed(documents, 4096);
  const std::int64_t rows = packed.packing.report().rows;
  std::vector<PackedRows> epochs;
  for (std::int64_t epoch = 1; epoch <= 2; ++epoch) {
    epochs.push_back(packed.step(epoch, rows));
    const PackedRows& all = epochs.back();
    ASSERT_EQ(all.tokens.size(), static_cast<std::size_t>(rows * 4096));
    std::map<std::int32_t, std::size_t> places;
    for (std::size_t i = 0; i < all.tokens.size(); ++i) {
      const std::size_t row = i / 4096 * 4096, start = row + static_cast<std::size_t>(all.document_starts[i]);
      ASSERT_EQ(all.positions[i], static_cast<std::int32_t>(i - start));
      ASSERT_EQ(all.tokens[start], all.tokens[i]);  // no other document between
      if (all.labels[i] != kIgnoredLabel) ++places[all.tokens[i]];
    }
    ASSERT_EQ(places.size(), documents.size());
    for (std::size_t i = 0; i < documents.size(); ++i)
      ASSERT_EQ(places[static_cast<std::int32_t>(i)], documents[i].tokens.size() - 1) << i;
  }
  EXPECT_NE(epochs[0].tokens, epochs[1].tokens);
  EXPECT_NE(sorted_rows(epochs[0], 4096), sorted_rows(epochs[1], 4096));  // other documents beside each other, too
}

TEST(Packing, FillsRowsOf4096WithLogUniformDocuments) {
  const Packed packed(log_uniform(5000), 4096);
  const PackingReport& report = packed.packing.report();
  const double filled = static_cast<double>(report.places) / static_cast<double>(report.rows * 4096);
  EXPECT_GT(filled, 0.99);
}

TEST(Packing, IsAFunctionOfSeedAndStep) {
  const Packed one(log_uniform(300), 4096, 7), again(log_uniform(300), 4096, 7), other(log_uniform(300), 4096, 8);
  const PackedRows third = one.step(3, 5);
  again.step(9, 2);  // what was asked before plays no part
  const PackedRows same = again.step(3, 5);
  EXPECT_EQ(third.tokens, same.tokens);
  EXPECT_EQ(third.labels, same.labels);
  EXPECT_EQ(third.positions, same.positions);
  EXPECT_EQ(third.document_starts, same.document_starts);
  EXPECT_EQ(third.trained, same.trained);
  EXPECT_NE(other.step(3, 5).tokens, third.tokens);
  EXPECT_NE(one.step(4, 5).tokens, third.tokens);
}

TEST(Packing, StepsGoOnAcrossEpochsWithoutAGap) {
  const Packed packed(log_uniform(200), 4096);
  const std::int64_t rows = packed.packing.report().rows;
  const PackedRows at_once = packed.step(1, 2 * rows);
  List tokens;
  std::int64_t trained = 0;
  for (std::int64_t step = 1; step <= 2 * rows; ++step) {
    const PackedRows one = packed.step(step, 1);
    tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
    trained += one.trained;
  }
  EXPECT_EQ(at_once.tokens, tokens);
  EXPECT_EQ(at_once.trained, trained);
  EXPECT_EQ(trained, 2 * packed.packing.report().trained_tokens);
}

TEST(Packing, SplitsATextIntoRowsWithoutLosingATarget) {
  const Packed packed(numbered({12}, LongDocument::split), 4);  // 11 places
  EXPECT_EQ(packed.packing.report().rows, 3);
  EXPECT_EQ(packed.packing.report().split, 1);
  EXPECT_EQ(packed.packing.report().documents, 3);  // of 4, 4 and 3 places
  const PackedRows rows = packed.step(1, 3);
  EXPECT_EQ(sorted_rows(rows, 4), (std::vector<List>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 0}}));
  List labels = rows.labels;
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(labels, (List{-100, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(Packing, CutsRefusesAndLeavesOutAsTheFileSays) {
  const Packed cut(numbered({12}, LongDocument::truncate), 4);
  EXPECT_EQ(cut.packing.report().truncated, 1);
  EXPECT_EQ(cut.step(1, 1).labels, (List{1, 2, 3, 4}));

  EXPECT_MENTIONS(error_text([] {
                    Packed(numbered({5, 6}, LongDocument::refuse), 4);
                  }),
                  "document 1 (from token 5) has 6 tokens, a row of 4 holds 5");

  const TestDocument late{{1, 2, 3, 4}, {false, false, false, true}, LongDocument::truncate};
  const Packed left_out({late, {{5, 6}, {}}}, 2);
  EXPECT_EQ(left_out.packing.report().left_out, 1);
  EXPECT_EQ(left_out.step(1, 1).tokens, (List{5, 0}));
  EXPECT_MENTIONS(error_text([&] { Packed({late}, 2); }), "nothing is left to train on in rows of 2 tokens");
}

TEST(Packing, PermutesEveryRangeForEveryKey) {
  std::set<std::vector<std::uint64_t>> orders;
  for (const std::uint64_t count : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u})
    for (std::uint64_t key = 0; key < 20; ++key) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < count; ++i) order.push_back(permuted(i, count, key));
      if (count == 4) orders.insert(order);
      std::sort(order.begin(), order.end());
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(order[i], i) << count << " " << key;
    }
  EXPECT_GT(orders.size(), 8u);  // of 24 for 20 keys; 13.7 expected of random ones
}

}  // namespace
}  // namespace penstock
