// The bound against what cuDNN 9.19 asked for on an H200, and the cut into pieces by hand.
#include "shared/model/library_workspace.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

Model attention_model(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  Model model;
  model.config.heads = heads;
  model.config.kv_heads = kv_heads;
  model.config.head_dim = head_dim;
  return model;
}

constexpr std::int64_t kSlack = std::int64_t{4} << 20;

// One sequence of 1024: 28 heads x (2 x 1024^2 + 4 x 1024 x 128 + 8 x 1024) = 73 629 696 bytes; 61 of them fit 4.25 GiB
// less the slack, so 64 sequences take two calls of 32.
TEST(AttentionPiece, SequencesAreCutIntoEqualCalls) {
  const AttentionPiece piece = attention_backward_piece(attention_model(28, 4, 128), {64, 1024});
  EXPECT_EQ(piece.sequences, 32);
  EXPECT_EQ(piece.kv_groups, 4);
  EXPECT_EQ(piece.bytes, std::int64_t{32} * 73'629'696 + kSlack);
}

// Measured whole: 3.99 GB for 4 sequences of 4096, so 0.9975 GB each; five would not fit.
TEST(AttentionPiece, SequencesThatFitAreOneCall) {
  const AttentionPiece piece = attention_backward_piece(attention_model(28, 4, 128), {4, 4096});
  EXPECT_EQ(piece.sequences, 4);
  EXPECT_EQ(piece.kv_groups, 4);
  EXPECT_NEAR(static_cast<double>(piece.bytes - kSlack), 3.99e9, 0.01 * 3.99e9);
  EXPECT_EQ(attention_backward_piece(attention_model(28, 4, 128), {5, 4096}).sequences, 3);
}

// Measured whole: 8.86 GB for 2 sequences x 8 groups, 4.43 GB a sequence: one sequence per call.
TEST(AttentionPiece, OneSequenceWhereTwoDoNotFit) {
  const AttentionPiece piece = attention_backward_piece(attention_model(32, 8, 128), {2, 8192});
  EXPECT_EQ(piece.sequences, 1);
  EXPECT_EQ(piece.kv_groups, 8);
  EXPECT_NEAR(static_cast<double>(piece.bytes - kSlack), 8.86e9 / 2, 0.01 * 8.86e9 / 2);
}

// A group of 5 heads: 5 x (2 x 8192^2 + 4 x 8192 x 128 + 8 x 8192) = 692 387 840 bytes; 6 fit, so two calls of four.
TEST(AttentionPiece, GroupsOfOneSequenceWhereASequenceDoesNotFit) {
  const AttentionPiece piece = attention_backward_piece(attention_model(40, 8, 128), {2, 8192});
  EXPECT_EQ(piece.sequences, 1);
  EXPECT_EQ(piece.kv_groups, 4);
  EXPECT_EQ(piece.bytes, std::int64_t{4} * 692'387'840 + kSlack);
}

// Measured whole: 60.6 GB for 4 groups. No piece is smaller than a group, so the need exceeds the budget, openly.
TEST(AttentionPiece, AGroupBeyondTheBudgetSaysWhatItNeeds) {
  const Model model = attention_model(28, 4, 128);
  const AttentionPiece piece = attention_backward_piece(model, {1, 32768});
  EXPECT_EQ(piece.kv_groups, 1);
  EXPECT_GT(piece.bytes, kAttentionWorkspaceBudget);
  EXPECT_NEAR(static_cast<double>(piece.bytes), 60.6e9 / 4, 0.01 * 60.6e9 / 4);
  EXPECT_GE(library_workspace_bytes(model, {1, 32768}), piece.bytes);
}

// Six groups of which four fit: two calls of three rather than four and two.
TEST(AttentionPiece, GroupsAreCutIntoEqualCalls) {
  // A group of 2 heads at length 16384, head dim 64: 2 x (536 870 912 + 4 194 304 + 131 072) = 1 082 392 576; 4 fit.
  const AttentionPiece piece = attention_backward_piece(attention_model(12, 6, 64), {1, 16384});
  EXPECT_EQ(piece.kv_groups, 3);
  EXPECT_EQ(piece.bytes, std::int64_t{3} * 1'082'392'576 + kSlack);
}

// Length 1000 is padded to 1024. Without order the call is whole: 2 x 4 bytes x tokens x heads x head dim and
// statistics.
TEST(AttentionPiece, UnorderedBackwardIsNeverCut) {
  const AttentionPiece piece = attention_backward_piece(attention_model(28, 4, 128), {16, 1000}, false);
  EXPECT_EQ(piece.sequences, 16);
  EXPECT_EQ(piece.kv_groups, 4);
  EXPECT_EQ(piece.bytes, 16 * 28 * (8 * 1024 * 128 + 8 * 1024) + kSlack);
}

TEST(LibraryWorkspace, IsAtLeastWhatMatmulsGetAndAligned) {
  EXPECT_EQ(library_workspace_bytes(attention_model(2, 1, 64), {1, 64}), kLibraryWorkspaceBytes);
  EXPECT_EQ(library_workspace_bytes(attention_model(28, 4, 128), {16, 1024}) % kFieldAlignment, 0);
}

}  // namespace
}  // namespace penstock
