// Single kernels against values computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "exec/host/attention.h"
#include "exec/host/embedding.h"
#include "exec/host/gradient_sink.h"
#include "exec/host/lanes.h"
#include "exec/host/loss.h"
#include "exec/host/matmul.h"
#include "exec/host/rmsnorm.h"
#include "exec/host/rotary.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "exec/host/swiglu.h"
#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

using Doubles = std::vector<double>;
constexpr double kTiny = 1e-14;

ModelConfig attention_config(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  ModelConfig config = tiny_llama();
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.rope_factor = 1.0;
  return config;
}

TEST(Rotary, FrequenciesFallByPowersOfTheta) {
  ModelConfig config = attention_config(1, 1, 4);
  config.rope_theta = 100.0;
  const Doubles frequencies = rotary_frequencies(config, 1);
  ASSERT_EQ(frequencies.size(), 2U);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);  // 100^0
  EXPECT_DOUBLE_EQ(frequencies[1], 0.1);  // 100^(-2/4)
}

/// factor 8, low 1, high 4, 8192 original positions: wavelengths above 8192 are divided by 8, those below 2048 stay. A
/// wavelength of 4096 lies at share (8192 / 4096 - 1) / (4 - 1) = 1/3: frequency times (2/3) / 8 + 1/3 = 5/12.
TEST(Rotary, Llama3ScalingInterpolatesBetweenWavelengths) {
  ModelConfig config = attention_config(1, 1, 6);
  config.rope_factor = 8.0;
  config.rope_low_freq_factor = 1.0;
  config.rope_high_freq_factor = 4.0;
  config.rope_original_positions = 8192;
  const double frequency = 2.0 * std::numbers::pi / 4096.0;
  config.rope_theta = std::pow(frequency, -3.0);  // theta^(-2/6) = frequency, theta^(-4/6) = its square
  const Doubles frequencies = rotary_frequencies(config, 1);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);  // wavelength 6.28
  EXPECT_NEAR(frequencies[1], frequency * 5.0 / 12.0, 1e-12);
  EXPECT_NEAR(frequencies[2], frequency * frequency / 8.0, 1e-15);  // wavelength 2.7 million
}

/// The same scaling just inside and outside both bounds: wavelengths of 8200 are divided, of 2040 left as they are.
TEST(Rotary, Llama3ScalingBoundsOfTheWavelengths) {
  ModelConfig config = attention_config(1, 1, 4);
  config.rope_factor = 8.0;
  config.rope_low_freq_factor = 1.0;
  config.rope_high_freq_factor = 4.0;
  config.rope_original_positions = 8192;
  for (const auto& [wavelength, factor] : {std::pair{8200.0, 1.0 / 8.0}, std::pair{2040.0, 1.0}}) {
    const double frequency = 2.0 * std::numbers::pi / wavelength;
    config.rope_theta = std::pow(frequency, -2.0);  // theta^(-2/4) = frequency
    // Interpolation beyond a bound would give a factor of 0.12472 (not 0.125) and 1.0046 (not 1).
    EXPECT_NEAR(rotary_frequencies(config, 1)[1] / frequency, factor, 1e-9) << wavelength;
  }
}

/// head_dim 2, frequency 1: position p turns (1, 0) by p radians; v stays.
TEST(Rotary, RotatesQueriesAndKeysByPosition) {
  const Model model = make_model(attention_config(1, 1, 2));
  Doubles qkv = {1, 0, 0, 1, 7, 8, 1, 0, 0, 1, 7, 8};  // two positions of q, k, v
  rotate_queries_and_keys<DoubleStorage>(model, {1, 2}, nullptr, nullptr, nullptr, qkv.data(), nullptr);
  const Doubles expected = {1, 0, 0, 1, 7, 8, std::cos(1.0), std::sin(1.0), -std::sin(1.0), std::cos(1.0), 7, 8};
  for (std::size_t i = 0; i < qkv.size(); ++i) EXPECT_NEAR(qkv[i], expected[i], kTiny) << i;
}

/// The same frequencies and another factor are another table.
TEST(Rotary, AttentionFactorScalesWhatIsRotated) {
  for (const double factor : {1.0, 0.5, 1.0}) {
    ModelConfig config = attention_config(1, 1, 2);
    config.rope_attention_factor = factor;
    Doubles qkv = {1, 0, 0, 1, 7, 8, 1, 0, 0, 1, 7, 8};
    rotate_queries_and_keys<DoubleStorage>(make_model(config), {1, 2}, nullptr, nullptr, nullptr, qkv.data(), nullptr);
    EXPECT_NEAR(qkv[0], factor, kTiny);
    EXPECT_NEAR(qkv[6], factor * std::cos(1.0), kTiny);
    EXPECT_EQ(qkv[10], 7);
  }
}

/// The second sequence of a micro-batch starts at position 0 again.
TEST(Rotary, PositionsRestartWithEachSequence) {
  const Model model = make_model(attention_config(1, 1, 2));
  Doubles qkv = {1, 0, 0, 1, 7, 8, 1, 0, 0, 1, 7, 8};
  rotate_queries_and_keys<DoubleStorage>(model, {2, 1}, nullptr, nullptr, nullptr, qkv.data(), nullptr);
  EXPECT_EQ(qkv, (Doubles{1, 0, 0, 1, 7, 8, 1, 0, 0, 1, 7, 8}));
}

/// q = (3, 4), mean square 12.5: normed (3, 4) / sqrt(12.5), times weights (2, 1); position 0 turns nothing.
TEST(Rotary, QkNormComesFirstAndLeavesWhatItRead) {
  ModelConfig config = attention_config(1, 1, 2);
  config.qk_norm = true;
  config.rms_epsilon = 1e-12;
  const Model model = make_model(config);
  Doubles qkv = {3, 4, 6, 8, 5, 5}, raw(4);
  const Doubles q_norm = {2, 1}, k_norm = {1, 10};
  rotate_queries_and_keys<DoubleStorage>(model, {1, 1}, nullptr, q_norm.data(), k_norm.data(), qkv.data(), raw.data());
  EXPECT_EQ(raw, (Doubles{3, 4, 6, 8}));
  const double rms = std::sqrt(12.5);
  const Doubles expected = {6 / rms, 4 / rms, 3 / rms, 40 / rms, 5, 5};
  for (std::size_t i = 0; i < qkv.size(); ++i) EXPECT_NEAR(qkv[i], expected[i], 1e-11) << i;
}

/// bf16 has 8 significant bits: 3 / sqrt(12.5) = 0.848528 lies between 0.84765625 and 0.8515625, nearer to the first.
TEST(RmsNorm, RoundsOnceToBf16) {
  const std::vector<std::uint16_t> x = {round_to_bf16(3.0f), round_to_bf16(4.0f)}, w = {0x3F80, 0x3F80};
  std::vector<std::uint16_t> y(2);
  rmsnorm<Bf16Storage>(x.data(), w.data(), y.data(), 1, 2, 1e-12);
  EXPECT_EQ(widen_bf16(y[0]), 0.84765625f);
  EXPECT_EQ(widen_bf16(y[1]), 1.1328125f);  // 1.131371 between 1.125 and 1.1328125
}

/// silu(1) = 1 / (1 + e^-1); silu'(0) = 1/2.
TEST(Swiglu, ValuesAndSlopes) {
  const Doubles gate_up = {1, 0, 2, 6};  // gate (1, 0), up (2, 6)
  Doubles product(2), d_gate_up(4);
  swiglu<DoubleStorage>(gate_up.data(), product.data(), 1, 2);
  const double sigmoid = 1.0 / (1.0 + std::exp(-1.0));
  EXPECT_NEAR(product[0], 2.0 * sigmoid, kTiny);
  EXPECT_EQ(product[1], 0.0);
  const Doubles d_product = {1, 3};
  swiglu_backward<DoubleStorage>(gate_up.data(), d_product.data(), d_gate_up.data(), 1, 2);
  EXPECT_NEAR(d_gate_up[0], 2.0 * sigmoid * (1.0 + (1.0 - sigmoid)), kTiny);
  EXPECT_NEAR(d_gate_up[1], 3.0 * 6.0 * 0.5, kTiny);
  EXPECT_NEAR(d_gate_up[2], sigmoid, kTiny);
  EXPECT_EQ(d_gate_up[3], 0.0);
}

/// The first query sees itself alone; the second, all zero, weighs both keys alike. lse: q k / sqrt(2), and log 2.
TEST(Attention, IsCausalAndNormalised) {
  const Model model = make_model(attention_config(1, 1, 2));
  const Doubles qkv = {1, 1, 2, 0, 10, 20, 0, 0, 5, 5, 30, 60};  // q, k, v of two tokens
  Doubles context(4), lse(2);
  attention_forward<DoubleStorage>(attention_spec(model.config, {1, 2}, 0), nullptr, qkv.data(), {}, context.data(),
                                   lse.data());
  EXPECT_NEAR(context[0], 10, 1e-13);
  EXPECT_NEAR(context[1], 20, 1e-13);
  EXPECT_NEAR(context[2], 20, 1e-13);
  EXPECT_NEAR(context[3], 40, 1e-13);
  EXPECT_NEAR(lse[0], 2.0 / std::sqrt(2.0), kTiny);
  EXPECT_NEAR(lse[1], std::log(2.0), kTiny);
}

/// Four query heads share two values: heads 0, 1 the first, heads 2, 3 the second. Sequences do not see each other.
TEST(Attention, GroupsOfQueriesShareAHead) {
  const Model model = make_model(attention_config(4, 2, 2));
  const std::int64_t columns = model.qkv_columns();
  ASSERT_EQ(columns, 16);
  Doubles qkv(32, 0.0), context(16), lse(8);
  for (std::int64_t sequence = 0; sequence < 2; ++sequence)
    for (std::int64_t i = 0; i < 4; ++i)
      qkv[static_cast<std::size_t>(sequence * columns + 12 + i)] = static_cast<double>(10 * sequence + i);
  attention_forward<DoubleStorage>(attention_spec(model.config, {2, 1}, 0), nullptr, qkv.data(), {}, context.data(),
                                   lse.data());
  EXPECT_EQ(context, (Doubles{0, 1, 0, 1, 2, 3, 2, 3, 10, 11, 10, 11, 12, 13, 12, 13}));
}

/// Scores of 1000 would overflow exp: the largest is subtracted first.
TEST(Attention, LargeScoresDoNotOverflow) {
  const Model model = make_model(attention_config(1, 1, 2));
  std::vector<std::uint16_t> qkv, context(4);
  for (const float value : {1000.0f, 0.0f, 1000.0f, 0.0f, 1.0f, 2.0f, 1000.0f, 0.0f, 1.0f, 0.0f, 3.0f, 4.0f})
    qkv.push_back(round_to_bf16(value));
  std::vector<float> lse(2);
  attention_forward<Bf16Storage>(attention_spec(model.config, {1, 2}, 0), nullptr, qkv.data(), {}, context.data(),
                                 lse.data());
  EXPECT_EQ(widen_bf16(context[2]), 1.0f);  // the second query sees the first key alone
  EXPECT_EQ(widen_bf16(context[3]), 2.0f);
  EXPECT_NEAR(lse[1], 1e6 / std::sqrt(2.0), 0.1);
}

/// Logits 0 and log 3: probabilities 1/4 and 3/4, loss of the first log 4; the gradient is halved by the scale.
TEST(CrossEntropy, LossAndGradient) {
  Doubles logits = {0.0, std::log(3.0)}, scratch(16);
  ScratchScope scope;
  const double loss = cross_entropy_row<DoubleStorage>(logits.data(), 2, 0, 0.5, scope.take<double>(2));
  EXPECT_NEAR(loss, std::log(4.0), kTiny);
  EXPECT_NEAR(logits[0], -0.75 / 2, kTiny);
  EXPECT_NEAR(logits[1], 0.75 / 2, kTiny);
}

/// 1000 equal logits: log 1000, whatever their size.
TEST(CrossEntropy, EqualLogits) {
  std::vector<std::uint16_t> logits(1000, round_to_bf16(-30000.0f));
  ScratchScope scope;
  const double loss = cross_entropy_row<Bf16Storage>(logits.data(), 1000, 999, 1.0, scope.take<float>(1000));
  EXPECT_NEAR(loss, std::log(1000.0), 1e-9);
  EXPECT_EQ(logits[0], round_to_bf16(0.001f));
  EXPECT_EQ(logits[999], round_to_bf16(-0.999f));
}

/// Token 2 occurs at positions 0 and 2, token 1 once, the last token of each sequence is a target only.
TEST(Embedding, AddsGradientsOfRepeatedTokens) {
  ModelConfig config = tiny_llama();
  config.hidden = 2;
  config.vocabulary = 4;
  const Model model = make_model(config);
  const std::vector<std::int32_t> tokens = {2, 1, 2, 3};
  std::vector<std::uint16_t> d_output;
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}) d_output.push_back(round_to_bf16(value));
  std::vector<float> gradient(static_cast<std::size_t>(model.layers[0].gradient_elements), -1.0f);
  BoundGradient sink(gradient.data(), ElementType::fp32, false, model.layers[0].gradient_elements);
  OpMemory<Bf16Storage> op;
  op.set(TemplateOperand::tokens, tokens.data());
  op.set(TemplateOperand::output_gradient, d_output.data());
  op.gradient = &sink;
  embedding_backward(model, {1, 3}, op, true);
  sink.finish();
  const std::vector<float> expected = {0, 0, 3, 4, 6, 8, 0, 0};
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i], i < 8 ? expected[i] : 0.0f) << i;
}

/// 1 + 2^-8 is a tie in bf16 (spacing 2^-7 above 1) and goes to even; 1 + 2^-8 + 2^-20 does not, if the sum is made in
/// fp32.
TEST(BoundGradient, AddsInFp32AndRoundsOnce) {
  std::vector<std::uint16_t> sum = {0x3F80, 0x3F80};  // 1, 1
  const std::vector<float> part = {0x1p-8f, 0x1p-8f + 0x1p-20f};
  BoundGradient sink(sum.data(), ElementType::bf16, true, 2);
  sink.add(0, part.data(), 2);
  sink.finish();
  EXPECT_EQ(sum[0], 0x3F80);
  EXPECT_EQ(sum[1], 0x3F81);
}

/// 3 x 2 = 3 x 5 times 5 x 2 with integers: exact whatever the order of additions. Strides leave the rest alone.
TEST(Matmul, TransposesAndStrides) {
  ScratchScope scope;
  double* const a = scope.take<double>(15);
  double* const b = scope.take<double>(10);
  double* const c = scope.take<double>(12);
  for (int i = 0; i < 15; ++i) a[i] = i;          // [3, 5]
  for (int i = 0; i < 10; ++i) b[i] = i % 3 - 1;  // [5, 2]
  for (int i = 0; i < 12; ++i) c[i] = -100;
  multiply(Matrix<double>(a, 3, 5), Matrix<double>(b, 5, 2), Matrix<double>(c, 3, 2, 4));
  // b = (-1 0)(1 -1)(0 1)(-1 0)(1 -1): columns give -a0 + a1 - a3 + a4 and -a1 + a2 - a4.
  const double expected[3][2] = {{2, -3}, {2, -8}, {2, -13}};
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(c[4 * r], expected[r][0]);
    EXPECT_EQ(c[4 * r + 1], expected[r][1]);
    EXPECT_EQ(c[4 * r + 2], -100);
  }
  double* const bt = scope.take<double>(10);
  for (int r = 0; r < 5; ++r)
    for (int k = 0; k < 2; ++k) bt[k * 5 + r] = b[r * 2 + k];
  multiply_transposed(Matrix<double>(a, 3, 5), Matrix<double>(bt, 2, 5), Matrix<double>(c, 3, 2, 4));
  for (int r = 0; r < 3; ++r) EXPECT_EQ(c[4 * r + 1], expected[r][1]);
  double* const at = scope.take<double>(15);
  for (int r = 0; r < 3; ++r)
    for (int k = 0; k < 5; ++k) at[k * 3 + r] = a[r * 5 + k];
  add_transposed_product(Matrix<double>(at, 5, 3), Matrix<double>(b, 5, 2), Matrix<double>(c, 3, 2, 4));
  for (int r = 0; r < 3; ++r) EXPECT_EQ(c[4 * r], 2 * expected[r][0]);
}

/// 2^53 in lane 0 swallows a 1 added to it, 16 ones in other lanes do not vanish: the order is lanes first, then pairs.
TEST(Lanes, SumIsByLanes) {
  Doubles values(33, 1.0);
  values[0] = 0x1p53;
  // Lane 0: (2^53 + 1) + 1 = 2^53 each time (ties to even); 15 lanes of 2 add pairwise to 30, added as 2, 4, 8, 16 to
  // lane 0.
  EXPECT_EQ(lane_sum<double>(33, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }), 0x1p53 + 30);
  values[20] = -5;
  values[32] = 0x1p54;
  EXPECT_EQ(lane_max(values.data(), 33), 0x1p54);
}

TEST(Scratch, ScopesNestAndAlign) {
  ScratchScope outer;
  float* const first = outer.take<float>(3);
  float* inner_memory = nullptr;
  {
    ScratchScope inner;
    inner_memory = inner.take<float>(5);
    EXPECT_NE(first, inner_memory);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(inner.take<float>(1 << 21)) % kScratchAlignment, 0U);  // a new block
  }
  EXPECT_EQ(outer.take<float>(5), inner_memory);  // given back when the inner scope ended
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kScratchAlignment, 0U);
}

}  // namespace
}  // namespace penstock::exec
