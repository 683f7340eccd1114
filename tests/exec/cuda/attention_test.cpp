// cuDNN's attention and the tiled kernels against the plain kernels, which sum in fp32 in a fixed order, and the plain kernels against fp64.
#include "exec/cuda/attention.h"

#include "exec/cuda/attention_plain.h"
#include "exec/cuda/attention_tiled.h"

#include "gpu_test.h"
#include "shared/error.h"

namespace penstock::exec {
namespace {

/// One shape with random q, k, v and gradient, and room for the results; results start as NaN.
struct Problem {
  AttentionSpec shape;
  DeviceMemory qkv, context, lse, d_context, d_qkv, workspace;

  Problem(const AttentionSpec& s, std::int64_t workspace_bytes) : shape(s), workspace(workspace_bytes) {
    qkv = to_device(random_bf16("qkv", s.tokens() * s.columns(), 0, 1));
    d_context = to_device(random_bf16("d_context", context_size(), 0, 1));
    context = DeviceMemory(context_size() * 2);
    lse = DeviceMemory(s.sequences * s.heads * s.length * 4);
    d_qkv = DeviceMemory(s.tokens() * s.columns() * 2);
    poison();
  }
  std::int64_t context_size() const { return shape.tokens() * shape.heads * shape.head_dim; }
  LibraryWorkspace library() const { return {workspace.data(), workspace.bytes()}; }
  AttentionBackward tensors() const {
    return {qkv.as<std::uint16_t>(), context.as<std::uint16_t>(), lse.as<float>(), d_context.as<std::uint16_t>(),
            d_qkv.as<std::uint16_t>()};
  }
  void poison() {
    for (DeviceMemory* memory : {&context, &lse, &d_qkv}) memory->fill(0xFF);
  }
  void plain_forward() {
    plain_attention_forward(shape, qkv.as<std::uint16_t>(), context.as<std::uint16_t>(), lse.as<float>(), nullptr);
  }
  std::vector<std::uint16_t> context_values() const { return to_host<std::uint16_t>(context, context_size()); }
  std::vector<float> lse_values() const { return to_host<float>(lse, lse.bytes() / 4); }
  std::vector<std::uint16_t> gradient_values() const { return to_host<std::uint16_t>(d_qkv, d_qkv.bytes() / 2); }
};

Model model_of(const AttentionSpec& shape) {
  Model model;
  model.config.heads = shape.heads;
  model.config.kv_heads = shape.kv_heads;
  model.config.head_dim = shape.head_dim;
  return model;
}

std::string shape_name(const ::testing::TestParamInfo<AttentionSpec>& info) {
  const AttentionSpec& s = info.param;
  return std::to_string(s.sequences) + "x" + std::to_string(s.length) + "_heads_" + std::to_string(s.heads) + "_" +
         std::to_string(s.kv_heads) + "_dim_" + std::to_string(s.head_dim);
}

class AttentionShapes : public GpuTestWith<AttentionSpec> {};

// One token, lengths around a tile and far from one, 8k, both head dims and some between, ratios 1, 2, 3, 4, 7, and
// dims that only the plain kernels take.
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionShapes,
                         ::testing::Values(AttentionSpec{2, 1, 4, 2, 64}, AttentionSpec{2, 63, 4, 4, 128},
                                           AttentionSpec{3, 129, 7, 1, 64}, AttentionSpec{2, 1000, 4, 2, 128},
                                           AttentionSpec{1, 777, 8, 2, 64}, AttentionSpec{1, 8192, 4, 2, 128},
                                           AttentionSpec{2, 256, 14, 2, 128}, AttentionSpec{2, 100, 3, 1, 20},
                                           AttentionSpec{1, 130, 2, 1, 256}, AttentionSpec{2, 65, 2, 2, 96},
                                           AttentionSpec{1, 191, 3, 3, 40}, AttentionSpec{3, 64, 6, 2, 8}),
                         shape_name);

TEST_P(AttentionShapes, LibraryAgreesWithPlainKernelsAndRepeatsItsBits) {
  const AttentionSpec& shape = GetParam();
  const BatchShape batch{shape.sequences, shape.length};
  Problem problem(shape, library_workspace_bytes(model_of(shape), batch));
  Attention attention;

  problem.plain_forward();
  const auto context = problem.context_values();
  const auto lse = problem.lse_values();
  plain_attention_backward(shape, problem.tensors(), nullptr);
  const auto gradient = problem.gradient_values();
  problem.poison();

  attention.forward(shape, problem.qkv.as<std::uint16_t>(), problem.context.as<std::uint16_t>(),
                    problem.lse.as<float>(), problem.library(), nullptr);
  const auto first_context = problem.context_values();
  EXPECT_LT(relative_error(first_context, context), 5e-3);  // one rounding to bf16 of context, one of the weights
  EXPECT_LT(relative_error(problem.lse_values(), lse), 1e-4);

  // One head of one sequence per call is the smallest piece, the batch at once the largest.
  const AttentionPiece own = attention_backward_piece(model_of(shape), batch);
  for (const AttentionPiece& piece : {own, AttentionPiece{1, 1, 0}}) {
    problem.d_qkv.fill(0xFF);
    attention.backward(shape, problem.tensors(), piece, true, problem.library(), nullptr);
    const auto once = problem.gradient_values();
    EXPECT_LT(relative_error(once, gradient), 1e-2);
    problem.d_qkv.fill(0xFF);
    attention.backward(shape, problem.tensors(), piece, true, problem.library(), nullptr);
    EXPECT_EQ(problem.gradient_values(), once);
  }
}

TEST_P(AttentionShapes, TilesAgreeWithPlainKernelsAndRepeatTheirBits) {
  const AttentionSpec& shape = GetParam();
  if (!attention_tiles(shape)) GTEST_SKIP() << "head dimension " << shape.head_dim << " is for the plain kernels";
  Problem problem(shape, 256);
  problem.plain_forward();
  const auto context = problem.context_values();
  const auto lse = problem.lse_values();
  plain_attention_backward(shape, problem.tensors(), nullptr);
  const auto gradient = problem.gradient_values();

  std::vector<std::uint16_t> first_context, first_gradient;
  for (int turn = 0; turn < 2; ++turn) {
    problem.poison();
    tiled_attention_forward(shape, problem.qkv.as<std::uint16_t>(), problem.context.as<std::uint16_t>(),
                            problem.lse.as<float>(), nullptr);
    tiled_attention_backward(shape, problem.tensors(), nullptr);
    if (turn == 0) {
      first_context = problem.context_values();
      first_gradient = problem.gradient_values();
      EXPECT_LT(relative_error(first_context, context), 5e-3);  // as for the library
      EXPECT_LT(relative_error(problem.lse_values(), lse), 1e-4);
      EXPECT_LT(relative_error(first_gradient, gradient), 1e-2);
    }
  }
  EXPECT_EQ(problem.context_values(), first_context);
  EXPECT_EQ(problem.gradient_values(), first_gradient);
}

TEST_P(AttentionShapes, UnorderedBackwardAgreesToo) {
  const AttentionSpec& shape = GetParam();
  const BatchShape batch{shape.sequences, shape.length};
  Problem problem(shape, library_workspace_bytes(model_of(shape), batch, false));
  problem.plain_forward();
  plain_attention_backward(shape, problem.tensors(), nullptr);
  const auto gradient = problem.gradient_values();
  problem.d_qkv.fill(0xFF);
  Attention attention;
  attention.backward(shape, problem.tensors(), attention_backward_piece(model_of(shape), batch, false), false,
                     problem.library(), nullptr);
  EXPECT_LT(relative_error(problem.gradient_values(), gradient), 1e-2);
}

using PlainAttention = GpuTest;

TEST_F(PlainAttention, MatchesTheFormulaInDoubles) {
  const AttentionSpec shape{2, 150, 4, 2, 20};
  Problem problem(shape, 256);
  problem.plain_forward();
  const auto qkv = to_host<std::uint16_t>(problem.qkv, shape.tokens() * shape.columns());
  const auto at = [&](std::int64_t s, std::int64_t t, std::int64_t head, std::int64_t c) {
    return value_of(
        qkv[static_cast<std::size_t>((s * shape.length + t) * shape.columns() + head * shape.head_dim + c)]);
  };
  std::vector<double> context;
  for (std::int64_t s = 0; s < shape.sequences; ++s)
    for (std::int64_t t = 0; t < shape.length; ++t)
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        std::vector<double> sums(static_cast<std::size_t>(shape.head_dim));
        double denominator = 0;
        for (std::int64_t key = 0; key <= t; ++key) {
          double score = 0;
          for (std::int64_t c = 0; c < shape.head_dim; ++c)
            score += at(s, t, h, c) * at(s, key, shape.heads + h / 2, c);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
          denominator += weight;
          for (std::int64_t c = 0; c < shape.head_dim; ++c)
            sums[static_cast<std::size_t>(c)] += weight * at(s, key, shape.heads + shape.kv_heads + h / 2, c);
        }
        for (const double sum : sums) context.push_back(sum / denominator);
      }
  std::vector<double> actual;
  for (const std::uint16_t value : problem.context_values()) actual.push_back(value_of(value));
  EXPECT_LT(relative_error(actual, context), 3e-3);  // one rounding to bf16: at most 2^-9 per element
}

TEST_F(PlainAttention, WorkspaceTooSmallIsSaidInWords) {
  if (std::string(Attention::name()) == "own") GTEST_SKIP() << "built without cuDNN";
  const AttentionSpec shape{2, 1024, 4, 2, 128};
  Problem problem(shape, 256);
  problem.plain_forward();
  Attention attention;
  try {
    attention.backward(shape, problem.tensors(), {2, 2, 0}, true, problem.library(), nullptr);
    FAIL() << "a workspace of 256 bytes was accepted";
  } catch (const DoesNotFit& error) {
    EXPECT_NE(std::string(error.what()).find("the schedule gives 256"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace penstock::exec
