// Kernels of template ops by hand-computed numbers.
//
// The small model: hidden 64, 4 heads and 2 kv heads of 16 (qkv 128 columns), intermediate 128, vocabulary 256. Matmul
// parameters of a decoder layer: qkv 128 x 64 = 8192, attention output 64 x 64 = 4096, gate_up 256 x 64 = 16384, down
// 64 x 128 = 8192; together 36 864. A batch of 2 sequences of 32: 64 tokens.
#include "shared/model/kernels.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/shared/policy/small_models.h"

namespace penstock {
namespace {

constexpr std::int64_t kLayer = 36864;
constexpr std::int64_t kTokens = 64;
constexpr double kAttention = 2.0 * 2 * 4 * 16 * 32 * 32;  // 2 s h d L^2, causal half

ModelConfig config() {
  ModelConfig c;
  c.hidden = 64;
  c.intermediate = 128;
  c.decoder_layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.vocabulary = 256;
  c.max_positions = 64;
  return c;
}

const BatchShape kBatch{2, 32};

std::vector<Kernel> kernels(const ModelConfig& c, LayerKind kind, Pass pass, LayoutOptions options = {},
                            bool output = false, bool accumulates = true) {
  return template_kernels(make_model(c), kind, pass, kBatch, options, output, accumulates);
}

std::string names(const std::vector<Kernel>& list) {
  std::string text;
  for (const Kernel& kernel : list) text += (text.empty() ? "" : ", ") + std::string(kernel.name());
  return text;
}

const Kernel& find(const std::vector<Kernel>& list, std::string_view name) {
  for (const Kernel& kernel : list)
    if (kernel.name() == name) return kernel;
  throw std::runtime_error("no kernel " + std::string(name));
}

std::int64_t total_bytes(const std::vector<Kernel>& list, std::string_view name) {
  std::int64_t bytes = 0;
  for (const Kernel& kernel : list)
    if (kernel.name() == name) bytes += kernel.bytes * kernel.count;
  return bytes;
}

TEST(Kernels, ForwardRunsTwoFlopsPerParameterAndToken) {
  const auto list = kernels(config(), LayerKind::decoder, Pass::forward);
  EXPECT_EQ(names(list), "input norm, qkv, rotary, attention, attention output, middle norm, gate_up, swiglu, down");
  EXPECT_DOUBLE_EQ(kernel_flops(list), 2.0 * kLayer * kTokens + kAttention);
}

TEST(Kernels, BackwardRunsFourFlopsPerParameterAndTokenAndTwoAndAHalfAttentions) {
  const auto list = kernels(config(), LayerKind::decoder, Pass::backward);
  EXPECT_DOUBLE_EQ(kernel_flops(list), 4.0 * kLayer * kTokens + 2.5 * kAttention);
}

TEST(Kernels, SixTimesParametersTimesTokens) {
  // Without recompute, what runs is what the model needs but for attention backward, which computes the scores again:
  // five products of which the model counts four. All three layers and the head (256 x 64 parameters).
  const Model model = make_model(config());
  double executed = 0;
  for (int layer = 0; layer < 3; ++layer)
    executed += kernel_flops(kernels(config(), LayerKind::decoder, Pass::forward)) +
                kernel_flops(kernels(config(), LayerKind::decoder, Pass::backward));
  executed += kernel_flops(kernels(config(), LayerKind::head, Pass::loss));
  EXPECT_DOUBLE_EQ(model_flops(model, kBatch), 6.0 * (3 * kLayer + 16384) * kTokens + 3.0 * 3 * kAttention);
  EXPECT_DOUBLE_EQ(executed, model_flops(model, kBatch) + 3 * 0.5 * kAttention);
}

/// Documents of 20, 8 and 4 in rows of 32: 480 of 1024 squares.
TEST(Kernels, PackedRowsAttendByDocument) {
  const Model model = make_model(config());
  const BatchShape batch{2, 32, BatchKind::packed, 480};
  const auto forward = template_kernels(model, LayerKind::decoder, Pass::forward, batch, {Keep::input, {}, 0});
  EXPECT_EQ(names(forward),
            "input norm, qkv, rotary, packed attention, attention output, middle norm, gate_up, swiglu, down");
  EXPECT_DOUBLE_EQ(kernel_flops(forward), 2.0 * kLayer * kTokens + kAttention * 480 / 1024);
  const auto backward = template_kernels(model, LayerKind::decoder, Pass::backward, batch, {Keep::input, {}, 0});
  EXPECT_DOUBLE_EQ(kernel_flops(backward), 4.0 * kLayer * kTokens + 2.5 * kAttention * 480 / 1024);
  EXPECT_DOUBLE_EQ(model_flops(model, batch), 6.0 * (3 * kLayer + 16384) * kTokens + 3.0 * 3 * kAttention * 480 / 1024);
}

/// A window of 8 in sequences of 32 leaves 32^2 - 24^2 = 448 of 1024 squares; in documents of 15 tokens of mean a window of
/// 10 leaves 480 - 32 / 15 x 5^2.
TEST(Kernels, WindowsHideWhatIsBeforeThem) {
  ModelConfig windowed = config();
  windowed.sliding_window = 8;
  windowed.window_layers = {0, 2};
  const Model model = make_model(windowed);
  EXPECT_EQ(model.layers[1].window, 8);
  EXPECT_EQ(model.layers[2].window, 0);
  const auto flops = [&](BatchShape batch, std::int64_t window) {
    return kernel_flops(template_kernels(model, LayerKind::decoder, Pass::forward, batch, {Keep::input, {}, 0}, false,
                                         true, 4, window)) -
           2.0 * kLayer * kTokens;
  };
  EXPECT_DOUBLE_EQ(flops(kBatch, 8), kAttention * 448 / 1024);
  for (const std::int64_t none : {0, 32, 100}) EXPECT_DOUBLE_EQ(flops(kBatch, none), kAttention);
  const BatchShape packed{2, 32, BatchKind::packed, 480};
  EXPECT_NEAR(flops(packed, 10), kAttention * (480 - 32.0 / 15 * 25) / 1024, 1e-6 * kAttention);
  EXPECT_NEAR(flops(packed, 15), kAttention * 480 / 1024, 1e-6 * kAttention);
  EXPECT_DOUBLE_EQ(model_flops(model, kBatch),
                   6.0 * (3 * kLayer + 16384) * kTokens + 3.0 * kAttention * (1 + 2 * 448.0 / 1024));
}

/// Twice the keys that the queries see, each chunk's first square halved: 4 queries behind 6 keys see 4 (4 + 2 x 6) = 64,
/// and 5 each of them under a window of 5, which is 40; behind 2 keys the first ones see less than the window.
TEST(Kernels, WindowsOfChunksHideKeysOfTheChunksBefore) {
  const auto squares = [](std::int64_t past, std::int64_t window) {
    AttentionSpec spec{.sequences = 3, .length = 4, .heads = 5, .kv_heads = 5, .head_dim = 7};
    spec.is_chunk = true;
    spec.past = past;
    spec.window = window;
    return spec.forward_flops() / (2.0 * 3 * 5 * 7);
  };
  EXPECT_DOUBLE_EQ(squares(6, 0), 64);
  EXPECT_DOUBLE_EQ(squares(6, 5), 40);
  EXPECT_DOUBLE_EQ(squares(2, 5), 32 - 1);
  EXPECT_DOUBLE_EQ(squares(0, 5), 16);
}

TEST(Kernels, TiedModelComputesItsProjectionAllTheSame) {
  ModelConfig tied = config();
  tied.tied_embeddings = true;
  EXPECT_DOUBLE_EQ(model_flops(make_model(tied), kBatch), model_flops(make_model(config()), kBatch));
}

TEST(Kernels, ModelFlopsOfQwen25_7BPerToken) {
  ModelConfig c;  // 28 layers of 233 046 016 matmul parameters and 152064 x 3584 of the head
  c.hidden = 3584;
  c.intermediate = 18944;
  c.decoder_layers = 28;
  c.heads = 28;
  c.kv_heads = 4;
  c.head_dim = 128;
  c.vocabulary = 152064;
  // 4608 x 3584 + 3584 x 3584 + 3 x 3584 x 18944 = 16 515 072 + 12 845 056 + 203 685 888.
  const double parameters = 28.0 * 233046016 + 152064.0 * 3584;
  // Attention forward per token at length 1024: 2 x 28 x 128 x 1024 per layer; three times that, 28 layers.
  EXPECT_DOUBLE_EQ(model_flops(make_model(c), {1, 1024}) / 1024, 6 * parameters + 3 * 28 * 2.0 * 3584 * 1024);
}

TEST(Kernels, RecomputeRunsOnlyWhatIsMissing) {
  LayoutOptions options;
  options.keep = Keep::input;
  EXPECT_EQ(names(kernels(config(), LayerKind::decoder, Pass::recompute, options)),
            "input norm, qkv, rotary, attention, attention output, middle norm, gate_up");
  options.keep = Keep::input_context;
  EXPECT_EQ(names(kernels(config(), LayerKind::decoder, Pass::recompute, options)),
            "input norm, qkv, rotary, attention output, middle norm, gate_up");
  options.keep = Keep::input_attention;
  EXPECT_EQ(names(kernels(config(), LayerKind::decoder, Pass::recompute, options)),
            "input norm, qkv, rotary, middle norm, gate_up");
  options.keep = Keep::everything;
  EXPECT_TRUE(kernels(config(), LayerKind::decoder, Pass::recompute, options).empty());
}

TEST(Kernels, BlockRecomputeAlsoMakesTheNextInput) {
  const auto list = kernels(config(), LayerKind::decoder, Pass::recompute, {}, true);
  EXPECT_EQ(names(list), names(kernels(config(), LayerKind::decoder, Pass::forward)));
  EXPECT_DOUBLE_EQ(kernel_flops(list), 2.0 * kLayer * kTokens + kAttention);
}

TEST(Kernels, ChunkedMlpIsRecomputedWithinBackward) {
  LayoutOptions options;
  options.chunking.mlp_tokens = 24;  // 64 tokens: chunks of 24, 24, 16
  EXPECT_EQ(names(kernels(config(), LayerKind::decoder, Pass::recompute, options)),
            "input norm, qkv, rotary, attention, attention output");
  const auto backward = kernels(config(), LayerKind::decoder, Pass::backward, options);
  // Four flops per parameter, and the gate_up product (16 384 parameters) again.
  EXPECT_DOUBLE_EQ(kernel_flops(backward), (4.0 * kLayer + 2.0 * 16384) * kTokens + 2.5 * kAttention);
  const Kernel& gate_up = find(backward, "gate_up");
  EXPECT_EQ(gate_up.m, 24);
  EXPECT_EQ(gate_up.count, 2);
  // Where the next layer's input is wanted too, gate_up is computed on the way.
  EXPECT_DOUBLE_EQ(kernel_flops(kernels(config(), LayerKind::decoder, Pass::recompute, options, true)),
                   2.0 * kLayer * kTokens + kAttention);
}

TEST(Kernels, FirstChunkOverwritesLaterOnesAdd) {
  LayoutOptions options;
  options.chunking.mlp_tokens = 24;
  std::vector<std::pair<std::int64_t, bool>> runs;  // (executions, adds)
  for (const Kernel& kernel : kernels(config(), LayerKind::decoder, Pass::backward, options, false, false))
    if (kernel.name() == "down weight gradient") runs.emplace_back(kernel.count, kernel.accumulates);
  EXPECT_EQ(runs, (std::vector<std::pair<std::int64_t, bool>>{{1, false}, {1, true}, {1, true}}));
}

TEST(Kernels, MatmulBytes) {
  const auto forward = kernels(config(), LayerKind::decoder, Pass::forward);
  // Input 64 x 64 and weights 64 x 128 read, 64 x 128 written, bf16.
  EXPECT_EQ(find(forward, "qkv").bytes, 2 * (64 * 64 + 64 * 128 + 64 * 128));
  // Down: 64 x 128 and 128 x 64 read, the residual 64 x 64 read, the sum written.
  EXPECT_EQ(find(forward, "down").bytes, 2 * (64 * 128 + 128 * 64 + 2 * 64 * 64));
  // Weight gradient of qkv: d_qkv and the normed input read, 128 x 64 fp32 written, and read before where it adds.
  const auto adds = kernels(config(), LayerKind::decoder, Pass::backward);
  const auto overwrites = kernels(config(), LayerKind::decoder, Pass::backward, {}, false, false);
  EXPECT_EQ(find(overwrites, "qkv weight gradient").bytes, 2 * (128 * 64 + 64 * 64) + 4 * 8192);
  EXPECT_EQ(find(adds, "qkv weight gradient").bytes, 2 * (128 * 64 + 64 * 64) + 8 * 8192);
  EXPECT_EQ(find(adds, "qkv weight gradient").m, 128);
  EXPECT_EQ(find(adds, "qkv weight gradient").n, 64);
  EXPECT_EQ(find(adds, "qkv weight gradient").k, kTokens);
}

// Where gradients are summed in bf16 every element is read and written in 2 bytes instead of 4.
TEST(Kernels, GradientsInBf16MoveHalfTheBytes) {
  const Model model = small::llama();
  const auto bytes = [&](std::int64_t gradient_bytes) {
    for (const Kernel& kernel :
         template_kernels(model, LayerKind::decoder, Pass::backward, {2, 32}, {}, false, true, gradient_bytes))
      if (kernel.name() == "qkv weight gradient") {
        EXPECT_EQ(kernel.output_bytes, gradient_bytes);
        return kernel.bytes;
      }
    return std::int64_t{0};
  };
  EXPECT_EQ(bytes(4) - bytes(2), 2 * 128 * 64 * 2);  // [128, 64] read and written
}

TEST(Kernels, ElementwiseAndAttentionBytes) {
  const auto forward = kernels(config(), LayerKind::decoder, Pass::forward);
  EXPECT_EQ(find(forward, "input norm").bytes, 2 * 64 * 64 * 2);                         // read and write [64, 64]
  EXPECT_EQ(find(forward, "rotary").bytes, 2 * 64 * (64 + 32) * 2);                      // q and k in place
  EXPECT_EQ(find(forward, "swiglu").bytes, 3 * 64 * 128 * 2);                            // gate, up, product
  EXPECT_EQ(find(forward, "attention").bytes, 2 * 64 * 128 + 2 * 64 * 64 + 4 * 64 * 4);  // qkv, context, lse of 4 heads
  const auto backward = kernels(config(), LayerKind::decoder, Pass::backward);
  EXPECT_EQ(find(backward, "attention backward").bytes, 2 * (2 * 64 * 128 + 2 * 64 * 64) + 4 * 64 * 4);
  EXPECT_EQ(find(backward, "middle norm backward").bytes, 4 * 64 * 64 * 2);  // input, gradient, residual; result
}

TEST(Kernels, QkNormSharesTheRotaryKernelAndSavesWhatCameIn) {
  ModelConfig c = config();
  c.qk_norm = true;
  EXPECT_EQ(find(kernels(c, LayerKind::decoder, Pass::forward), "qk norm and rotary").bytes, 3 * 64 * (64 + 32) * 2);
}

TEST(Kernels, BiasHasAGradient) {
  ModelConfig c = config();
  EXPECT_EQ(names(kernels(c, LayerKind::decoder, Pass::backward)).find("bias"), std::string::npos);
  c.qkv_bias = true;
  EXPECT_EQ(find(kernels(c, LayerKind::decoder, Pass::backward), "qkv bias gradient").bytes, 64 * 128 * 2);
}

TEST(Kernels, HeadRunsInChunksOfTokens) {
  LayoutOptions options;
  options.chunking.loss_tokens = 16;
  const auto list = kernels(config(), LayerKind::head, Pass::loss, options);
  EXPECT_DOUBLE_EQ(kernel_flops(list), 6.0 * 256 * 64 * kTokens);  // logits and both gradients
  EXPECT_EQ(find(list, "logits").m, 16);
  EXPECT_EQ(find(list, "logits").n, 256);
  EXPECT_EQ(find(list, "logits").count, 4);
  EXPECT_EQ(total_bytes(list, "cross entropy"), 2 * 64 * 256 * 2);  // logits read, their gradient written
}

TEST(Kernels, EmbeddingGathersAndScatters) {
  const auto forward = kernels(config(), LayerKind::embedding, Pass::forward);
  EXPECT_EQ(find(forward, "embedding").bytes, 2 * 64 * 64 * 2);
  EXPECT_DOUBLE_EQ(kernel_flops(forward), 0);
  EXPECT_EQ(find(kernels(config(), LayerKind::embedding, Pass::backward), "embedding backward").bytes,
            64 * 64 * (2 + 8));
  // Overwriting sets the whole matrix first.
  EXPECT_EQ(
      find(kernels(config(), LayerKind::embedding, Pass::backward, {}, false, false), "embedding gradient zero").bytes,
      256 * 64 * 4);
}

}  // namespace
}  // namespace penstock
