// Regions of one micro-batch by hand. 2 sequences of 32 (64 tokens), hidden 64, 4 heads and 2 kv heads of 16,
// intermediate 128, vocabulary 256. All sizes below are multiples of 256 but where said.
#include "shared/model/activations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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
  EXPECT_EQ(kept(Keep::input_context), kAttention + kLse);
  EXPECT_EQ(kept(Keep::input_attention), kAttention + kLse + kMiddle);
  EXPECT_EQ(kept(Keep::everything), kQkv + kAttention + kLse + kMiddle + kGateUp);
  EXPECT_EQ(kept(Keep::everything, model(true)), kQkRaw + kQkv + kAttention + kLse + kMiddle + kGateUp);
}

TEST(Activations, KeptAndRecomputedTogetherAreWhatBackwardReads) {
  const std::int64_t all = kQkv + kAttention + kLse + kMiddle + kGateUp;
  for (const Keep keep : kKeeps) EXPECT_EQ(kept(keep) + recomputed(keep), all);
}

/// They wait for its later chunks as `kv`: 64 columns of 128 here. The other levels make them again with the queries.
TEST(Activations, KeysAndValuesOfAChunkAreKeptOnce) {
  BatchShape chunk{1, 64};
  chunk.chunk_tokens = 64;
  const auto region = [&](auto make, Keep keep) { return make(model(), LayerKind::decoder, chunk, options(keep)); };
  const Region kept = region(kept_region, Keep::everything);
  EXPECT_EQ(kept.bytes, kQkv / 2 + kAttention + kLse + kMiddle + kGateUp);
  EXPECT_EQ(kept.find(Activation::queries)->bytes, kQkv / 2);
  EXPECT_EQ(kept.find(Activation::qkv), nullptr);
  for (const Keep keep : {Keep::input, Keep::input_context, Keep::input_attention}) {
    EXPECT_EQ(region(recomputed_region, keep).find(Activation::qkv)->bytes, kQkv);
    EXPECT_EQ(region(recomputed_region, keep).find(Activation::queries), nullptr);
  }
  const Region scratch = workspace_region(model(), LayerKind::decoder, Pass::forward, chunk, options(Keep::everything));
  EXPECT_EQ(scratch.find(Activation::qkv)->bytes, kQkv);  // before it is split
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

/// A kernel or some, in the order of kernels.h: what they touch in the workspace, whether attention is among them.
struct Step {
  std::vector<Activation> touched;
  bool attends = false;

  bool touches(Activation activation) const {
    return std::find(touched.begin(), touched.end(), activation) != touched.end();
  }
};

std::vector<Step> decoder_steps(Pass pass) {
  using enum Activation;
  const Step mlp{{library, normed, gate_up, product}};
  if (pass == Pass::recompute) return {{{library, normed}}, {{library}, true}, {{library}}, mlp};
  if (pass == Pass::forward)
    return {{{library, normed, qkv}},       {{qkv, qk_raw}},    {{library, qkv, attention, lse}, true},
            {{library, attention, middle}}, {{middle, normed}}, mlp,
            {{library, product, middle}}};
  return {{{normed}},
          {{library, normed, gate_up, product, d_product, d_gate_up, d_normed}},
          {{d_normed, reduction}},
          {{library, d_attention}},
          {{library, d_attention, d_qkv}, true},
          {{d_qkv, reduction}},
          {{library, d_qkv, normed}},
          {{library, d_qkv, d_normed}},
          {{d_normed, reduction}}};
}

struct Lifetime {
  std::int64_t begin = 0, end = 0;  // bytes
  int first = -1, last = -1;        // steps
};

/// What is touched in one step and in a later one must survive those between; but normed and d_normed are made anew
/// where a step did not need them, and the library's workspace in every step.
std::vector<Lifetime> lifetimes(const Region& region, const std::vector<Step>& steps) {
  std::vector<Lifetime> result;
  for (const Field& field : region.fields) {
    const bool is_library = field.activation == Activation::library;
    const bool anew = is_library || field.activation == Activation::normed || field.activation == Activation::d_normed;
    Lifetime life{field.offset_bytes, field.offset_bytes + field.bytes};
    for (int index = 0; index < static_cast<int>(steps.size()); ++index) {
      const Step& step = steps[static_cast<std::size_t>(index)];
      if (!step.touches(field.activation)) continue;
      if (life.first >= 0 && anew && (is_library || index > life.last + 1)) {
        result.push_back(life);
        life.first = -1;
      }
      if (life.first < 0) life.first = index;
      life.last = index;
      if (is_library)
        life.end = life.begin + (step.attends ? field.bytes : std::min(field.bytes, kLibraryWorkspaceBytes));
    }
    if (life.first >= 0) result.push_back(life);
  }
  return result;
}

// Long attention (a large library workspace) and none, chunked and whole MLP, everything kept and nothing.
TEST(Activations, FieldsThatLiveAtTheSameTimeDoNotOverlap) {
  for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward})
    for (const std::int64_t library : {std::int64_t{0}, kLibraryWorkspaceBytes, 5 * kLibraryWorkspaceBytes})
      for (const Keep keep : kKeeps)
        for (const std::int64_t chunk : {0, 4}) {
          LayoutOptions o = options(keep, chunk);
          o.library_bytes = library;
          const Region region = workspace_region(model(true), LayerKind::decoder, pass, {1, 7}, o);
          for (const Field& field : region.fields) {
            EXPECT_EQ(field.offset_bytes % kFieldAlignment, 0);
            EXPECT_LE(field.offset_bytes + field.bytes, region.bytes);
          }
          const std::vector<Lifetime> all = lifetimes(region, decoder_steps(pass));
          for (std::size_t i = 0; i < all.size(); ++i)
            for (std::size_t j = i + 1; j < all.size(); ++j)
              EXPECT_TRUE(all[i].end <= all[j].begin || all[j].end <= all[i].begin || all[i].last < all[j].first ||
                          all[j].last < all[i].first)
                  << "pass " << static_cast<int>(pass) << ", library " << library << ", chunk " << chunk << ": bytes "
                  << all[i].begin << " to " << all[i].end << " and " << all[j].begin << " to " << all[j].end;
        }
}

// Backward, 128 MiB of library: its second half and the context's gradient lie under norms and MLP. These take
// 8192 (normed) + 16384 (product) + 16384 + 32768 (gate_up's gradient) + 8192 bytes, less than 64 MiB + 8192.
TEST(Activations, NormsAndMlpLieOverWhatOnlyAttentionNeeds) {
  LayoutOptions o = options(Keep::everything);
  o.library_bytes = 2 * kLibraryWorkspaceBytes;
  const std::int64_t reduction = kReductionRows * 128 * 4;
  EXPECT_EQ(workspace_region(model(), LayerKind::decoder, Pass::backward, kBatch, o).bytes,
            reduction + kQkv + 2 * kLibraryWorkspaceBytes + kAttention);
  o.library_bytes = 0;
  EXPECT_EQ(workspace_region(model(), LayerKind::decoder, Pass::backward, kBatch, o).bytes,
            reduction + kQkv + 8192 + 16384 + 16384 + 32768 + 8192);
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
  o.library_bytes = 10 * kLibraryWorkspaceBytes;  // matmuls alone take the first part
  EXPECT_EQ(workspace_region(model(), LayerKind::head, Pass::loss, kBatch, o).bytes, without + kLibraryWorkspaceBytes);
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
