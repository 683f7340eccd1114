// Regions of one micro-batch by hand. 2 sequences of 32 (64 tokens), hidden 64, 4 heads and 2 kv heads of 16,
// intermediate 128, vocabulary 256. All sizes below are multiples of 256 but where said.
#include "shared/model/activations.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::int64_t kQkv = 64 * 128 * 2;       // 16384
constexpr std::int64_t kAttention = 64 * 64 * 2;  //  8192
constexpr std::int64_t kLse = 2 * 4 * 32 * 4;     //  1024
constexpr std::int64_t kMiddle = 64 * 64 * 2;     //  8192
constexpr std::int64_t kGateUp = 64 * 256 * 2;    // 32768
constexpr std::int64_t kQkRaw = 64 * 96 * 2;      // 12288

Model model(bool qk_norm = false) {
  ModelConfig c;
  c.hidden = 64;
  c.intermediate = 128;
  c.decoder_layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.vocabulary = 256;
  c.qk_norm = qk_norm;
  return make_model(c);
}

const BatchShape kBatch{2, 32};

LayoutOptions options(Keep keep, std::int64_t mlp_tokens = 0) {
  LayoutOptions o;
  o.keep = keep;
  o.chunking.mlp_tokens = mlp_tokens;
  o.library_bytes = 0;
  return o;
}

std::int64_t kept(Keep keep, const Model& of = model()) {
  return kept_region(of, LayerKind::decoder, kBatch, options(keep)).bytes;
}
std::int64_t recomputed(Keep keep, std::int64_t mlp_tokens = 0) {
  return recomputed_region(model(), LayerKind::decoder, kBatch, options(keep, mlp_tokens)).bytes;
}

TEST(Activations, KeptByLevel) {
  EXPECT_EQ(kept(Keep::input), 0);
  EXPECT_EQ(kept(Keep::input_attention), kAttention + kLse + kMiddle);
  EXPECT_EQ(kept(Keep::everything), kQkv + kAttention + kLse + kMiddle + kGateUp);
  EXPECT_EQ(kept(Keep::everything, model(true)), kQkRaw + kQkv + kAttention + kLse + kMiddle + kGateUp);
}

TEST(Activations, KeptAndRecomputedTogetherAreWhatBackwardReads) {
  const std::int64_t all = kQkv + kAttention + kLse + kMiddle + kGateUp;
  for (const Keep keep : {Keep::input, Keep::input_attention, Keep::everything})
    EXPECT_EQ(kept(keep) + recomputed(keep), all);
}

TEST(Activations, AChunkedMlpLeavesGateUpToBackward) {
  EXPECT_EQ(recomputed(Keep::input, 16), kQkv + kAttention + kLse + kMiddle);
  EXPECT_TRUE(mlp_recomputed_in_backward(kBatch, options(Keep::input, 16)));
  EXPECT_FALSE(mlp_recomputed_in_backward(kBatch, options(Keep::input, 64)));       // one chunk is no chunking
  EXPECT_FALSE(mlp_recomputed_in_backward(kBatch, options(Keep::everything, 16)));  // it was kept
  const Region workspace =
      workspace_region(model(), LayerKind::decoder, Pass::backward, kBatch, options(Keep::input, 16));
  ASSERT_NE(workspace.find(Activation::gate_up), nullptr);
  EXPECT_EQ(workspace.find(Activation::gate_up)->bytes, 16 * 256 * 2);
}

TEST(Activations, FieldsDoNotOverlapAndAreAligned) {
  for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward}) {
    const Region region = workspace_region(model(true), LayerKind::decoder, pass, {1, 7}, options(Keep::input));
    std::int64_t end = 0;
    for (const Field& field : region.fields) {
      EXPECT_EQ(field.offset_bytes % kFieldAlignment, 0);
      EXPECT_GE(field.offset_bytes, end);
      end = field.offset_bytes + field.bytes;
    }
    EXPECT_GE(region.bytes, end);
    EXPECT_EQ(region.bytes % kFieldAlignment, 0);
  }
}

TEST(Activations, ForwardWorkspaceHoldsWhatIsNotKept) {
  // Norm and product are scratch; the saved tensors lie there unless kept.
  const std::int64_t scratch = 64 * 64 * 2 + 64 * 128 * 2;
  const auto bytes = [](Keep keep) {
    return workspace_region(model(), LayerKind::decoder, Pass::forward, kBatch, options(keep)).bytes;
  };
  EXPECT_EQ(bytes(Keep::everything), scratch);
  EXPECT_EQ(bytes(Keep::input), scratch + kQkv + kAttention + kLse + kMiddle + kGateUp);
}

TEST(Activations, HeadNeverHoldsAllLogits) {
  LayoutOptions o = options(Keep::input);
  o.chunking.loss_tokens = 16;
  const Region region = workspace_region(model(), LayerKind::head, Pass::loss, kBatch, o);
  EXPECT_EQ(region.find(Activation::logits)->bytes, 16 * 256 * 2);
  o.chunking.loss_tokens = 0;  // default 1024, more than there are tokens
  EXPECT_EQ(workspace_region(model(), LayerKind::head, Pass::loss, kBatch, o).find(Activation::logits)->bytes,
            64 * 256 * 2);
}

TEST(Activations, LibraryWorkspaceIsPartOfEveryOpThatCallsLibraries) {
  LayoutOptions o = options(Keep::input);
  const std::int64_t without = workspace_region(model(), LayerKind::head, Pass::loss, kBatch, o).bytes;
  o.library_bytes = 1000;  // rounded up to 1024
  EXPECT_EQ(workspace_region(model(), LayerKind::head, Pass::loss, kBatch, o).bytes, without + 1024);
  EXPECT_EQ(workspace_region(model(), LayerKind::embedding, Pass::forward, kBatch, o).bytes, 0);
}

TEST(Activations, EmbeddingBackwardHasTheOrderOfTheTokensAndPartialSums) {
  // 64 pairs of int32; 256 rows of the widest column count, 128 (qkv), fp32.
  const Region region = workspace_region(model(), LayerKind::embedding, Pass::backward, kBatch, options(Keep::input));
  EXPECT_EQ(region.find(Activation::token_order)->bytes, 64 * 8);
  EXPECT_EQ(region.find(Activation::reduction)->bytes, 256 * 128 * 4);
  EXPECT_EQ(region.bytes, 64 * 8 + 256 * 128 * 4);
}

TEST(Activations, BoundaryBytes) { EXPECT_EQ(boundary_bytes(model(), kBatch), 64 * 64 * 2); }

}  // namespace
}  // namespace penstock
