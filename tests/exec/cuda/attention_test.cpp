// cuDNN's attention and the tiled kernels against the plain kernels, which sum in fp32 in a fixed order, and the plain kernels against fp64.
#include "exec/cuda/attention.h"

#include <cmath>

#include "exec/cuda/attention_own.h"

#include "gpu_test.h"

namespace penstock::exec {
namespace {

/// One shape with random q, k, v and gradient, and room for the results; results start as NaN. `documents`: of packed
/// rows, lengths over and over, the last of a row is cut.
struct Problem {
  AttentionSpec shape;
  DeviceMemory qkv, context, lse, d_context, d_qkv, workspace;
  std::vector<std::int32_t> document_starts;
  DeviceMemory starts_memory;

  Problem(const AttentionSpec& s, std::int64_t workspace_bytes, const std::vector<int>& documents = {})
      : shape(s), workspace(workspace_bytes) {
    std::size_t next = 0;
    for (std::int64_t row = 0; row < s.sequences && !documents.empty(); ++row)
      for (std::int64_t place = 0, start = 0, left = 0; place < s.length; ++place) {
        if (left-- == 0) {
          start = place;
          left = documents[next++ % documents.size()] - 1;
        }
        document_starts.push_back(static_cast<std::int32_t>(start));
      }
    starts_memory = to_device(document_starts);
    qkv = to_device(random_bf16("qkv", s.tokens() * s.columns(), 0, 1));
    d_context = to_device(random_bf16("d_context", context_size(), 0, 1));
    context = DeviceMemory(context_size() * 2);
    lse = DeviceMemory(s.sequences * s.heads * s.length * 4);
    d_qkv = DeviceMemory(s.tokens() * s.columns() * 2);
    poison();
  }
  std::int64_t context_size() const { return shape.tokens() * shape.heads * shape.head_dim; }
  LibraryWorkspace library() const { return {workspace.data(), workspace.bytes()}; }
  const std::int32_t* starts() const { return document_starts.empty() ? nullptr : starts_memory.as<std::int32_t>(); }
  AttentionBackward tensors() const {
    return {starts(),        qkv.as<std::uint16_t>(),       context.as<std::uint16_t>(),
            lse.as<float>(), d_context.as<std::uint16_t>(), d_qkv.as<std::uint16_t>()};
  }
  void poison() {
    for (DeviceMemory* memory : {&context, &lse, &d_qkv}) memory->fill(0xFF);
  }
  void plain_forward() {
    plain_attention_forward(shape, starts(), qkv.as<std::uint16_t>(), {}, context.as<std::uint16_t>(), lse.as<float>(),
                            nullptr);
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

  attention.forward(shape, problem.starts(), problem.qkv.as<std::uint16_t>(), {}, problem.context.as<std::uint16_t>(),
                    problem.lse.as<float>(), problem.library(), nullptr);
  const auto first_context = problem.context_values();
  EXPECT_LT(relative_error(first_context, context), 5e-3);  // one rounding to bf16 of context, one of the weights
  EXPECT_LT(relative_error(problem.lse_values(), lse), 1e-4);

  // One head of one sequence per call is the smallest piece, the batch at once the largest.
  testing::internal::CaptureStderr();
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
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "");  // nothing went to our own kernels that the library should take
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
    tiled_attention_forward(shape, problem.starts(), problem.qkv.as<std::uint16_t>(), {},
                            problem.context.as<std::uint16_t>(), problem.lse.as<float>(), nullptr);
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

using PackedAttention = GpuTest;

/// Forward and backward, twice, against the plain kernels and each other.
void expect_plain_kernels_values_twice(const AttentionSpec& shape, const std::vector<int>& lengths,
                                       const std::string& where) {
  Problem problem(shape, 256, lengths);
  problem.plain_forward();
  const auto context = problem.context_values();
  const auto lse = problem.lse_values();
  plain_attention_backward(shape, problem.tensors(), nullptr);
  const auto gradient = problem.gradient_values();
  Attention attention;
  std::vector<std::uint16_t> first_context, first_gradient;
  for (int turn = 0; turn < 2; ++turn) {
    problem.poison();
    attention.forward(shape, problem.starts(), problem.qkv.as<std::uint16_t>(), {}, problem.context.as<std::uint16_t>(),
                      problem.lse.as<float>(), problem.library(), nullptr);
    attention.backward(shape, problem.tensors(), {1, 1, 0}, true, problem.library(), nullptr);
    if (turn > 0) continue;
    first_context = problem.context_values();
    first_gradient = problem.gradient_values();
    EXPECT_LT(relative_error(first_context, context), 5e-3) << where;
    EXPECT_LT(relative_error(problem.lse_values(), lse), 1e-4) << where;
    EXPECT_LT(relative_error(first_gradient, gradient), 1e-2) << where;
  }
  EXPECT_EQ(problem.context_values(), first_context) << where;
  EXPECT_EQ(problem.gradient_values(), first_gradient) << where;
}

/// Documents that end with a tile, in it, that are one token or many tiles long, several rows of others.
TEST_F(PackedAttention, TilesAndLibraryAgreeWithPlainKernelsAndRepeatTheirBits) {
  const std::vector<std::vector<int>> documents{{64}, {1}, {50, 1, 70, 64, 13}, {500, 129, 300}, {63, 65, 128}, {9999}};
  for (const AttentionSpec& shape : {AttentionSpec{2, 300, 4, 2, 64}, AttentionSpec{3, 1000, 7, 1, 128},
                                     AttentionSpec{1, 4096, 4, 2, 128}, AttentionSpec{2, 191, 3, 3, 40}})
    for (const std::vector<int>& lengths : documents)
      expect_plain_kernels_values_twice(
          shape, lengths, std::to_string(shape.length) + " in documents of " + std::to_string(lengths[0]));
}

AttentionSpec under_window(AttentionSpec shape, std::int64_t window) {
  shape.window = window;
  return shape;
}

/// Windows of one token, around a tile, of many, one short of the row; alone and in documents that are shorter and longer.
TEST_F(PackedAttention, WindowsAgreeWithPlainKernelsAndRepeatTheirBits) {
  for (const AttentionSpec& rows : {AttentionSpec{2, 300, 4, 2, 64}, AttentionSpec{3, 1000, 7, 1, 128},
                                    AttentionSpec{1, 191, 3, 3, 40}, AttentionSpec{2, 150, 4, 2, 20}})
    for (const std::int64_t window : {std::int64_t{1}, std::int64_t{2}, std::int64_t{63}, std::int64_t{64},
                                      std::int64_t{65}, std::int64_t{140}, rows.length - 1})
      for (const std::vector<int>& lengths : {std::vector<int>{}, {50, 1, 70, 64, 13}, {500, 129, 300}})
        expect_plain_kernels_values_twice(under_window(rows, window), lengths,
                                          std::to_string(rows.length) + " under " + std::to_string(window));
}

/// A window as long as the row is none, to the bit.
TEST_F(PackedAttention, OfAWindowAsLongAsTheRowIsThatOfTheRow) {
  const AttentionSpec shape{2, 777, 4, 2, 128};
  Problem whole(shape, 256), windowed(under_window(shape, 777), 256);
  for (Problem* problem : {&whole, &windowed}) {
    tiled_attention_forward(problem->shape, problem->starts(), problem->qkv.as<std::uint16_t>(), {},
                            problem->context.as<std::uint16_t>(), problem->lse.as<float>(), nullptr);
    tiled_attention_backward(problem->shape, problem->tensors(), nullptr);
  }
  EXPECT_EQ(windowed.context_values(), whole.context_values());
  EXPECT_EQ(windowed.gradient_values(), whole.gradient_values());
}

/// Rows that are one document are whole rows, to the bit.
TEST_F(PackedAttention, OfOneDocumentIsThatOfTheRow) {
  const AttentionSpec shape{2, 777, 4, 2, 128};
  Problem whole(shape, 256), packed(shape, 256, {777});
  for (Problem* problem : {&whole, &packed}) {
    tiled_attention_forward(shape, problem->starts(), problem->qkv.as<std::uint16_t>(), {},
                            problem->context.as<std::uint16_t>(), problem->lse.as<float>(), nullptr);
    tiled_attention_backward(shape, problem->tensors(), nullptr);
  }
  EXPECT_EQ(packed.context_values(), whole.context_values());
  EXPECT_EQ(packed.gradient_values(), whole.gradient_values());
}

/// A document's results do not depend on what else is in the row, where it begins a tile.
TEST_F(PackedAttention, OfADocumentIsItsOwn) {
  const AttentionSpec shape{1, 512, 2, 1, 64}, alone{1, 200, 2, 1, 64};
  Problem row(shape, 256, {128, 200, 100}), document(alone, 256, {200});
  const auto qkv = to_host<std::uint16_t>(row.qkv, shape.tokens() * shape.columns());
  document.qkv =
      to_device(std::vector<std::uint16_t>(qkv.begin() + 128 * shape.columns(), qkv.begin() + 328 * shape.columns()));
  for (Problem* problem : {&row, &document})
    tiled_attention_forward(problem->shape, problem->starts(), problem->qkv.as<std::uint16_t>(), {},
                            problem->context.as<std::uint16_t>(), problem->lse.as<float>(), nullptr);
  const auto context = row.context_values();
  const std::vector<std::uint16_t> part(context.begin() + 128 * shape.context_columns(),
                                        context.begin() + 328 * shape.context_columns());
  EXPECT_LT(relative_error(document.context_values(), part), 1e-6);
}

/// A sequence in chunks, with room for what its chunks hand on. Queries, contexts and gradients are those of `whole`.
struct CutProblem {
  Problem& whole;
  BatchShape sequence;
  DeviceMemory kv, kv_gradient, dense_queries;
  std::vector<DeviceMemory> lse;
  bool queries_apart = false;  // backward finds them dense

  CutProblem(Problem& problem, std::int64_t chunk_tokens)
      : whole(problem), sequence{1, problem.shape.length}, kv_gradient(4 * values()) {
    if (!problem.document_starts.empty()) sequence.kind = BatchKind::packed;
    sequence.chunk_tokens = chunk_tokens;
    const AttentionSpec& s = problem.shape;
    const auto qkv = to_host<std::uint16_t>(problem.qkv, s.tokens() * s.columns());
    std::vector<std::uint16_t> keys, queries;
    for (std::int64_t token = 0; token < s.length; ++token) {
      const auto row = qkv.begin() + token * s.columns();
      queries.insert(queries.end(), row, row + s.context_columns());
      keys.insert(keys.end(), row + s.context_columns(), row + s.columns());
    }
    kv = to_device(keys);
    dense_queries = to_device(queries);
    kv_gradient.fill(0xFF);
    for (int chunk = 0; chunk < chunk_count(sequence); ++chunk) lse.emplace_back(4 * s.heads * shape(chunk).length);
  }
  std::int64_t values() const { return whole.shape.tokens() * 2 * whole.shape.kv_heads * whole.shape.head_dim; }
  BatchShape batch(int chunk) const { return chunk_of(sequence, chunk); }
  AttentionSpec shape(int chunk) const { return attention_spec(model_of(whole.shape).config, batch(chunk), 0); }
  ChunkKeys keys(int chunk) const {
    const std::uint16_t* const own =
        dense_queries.as<std::uint16_t>() + batch(chunk).past * whole.shape.context_columns();
    return {kv.as<std::uint16_t>(), kv_gradient.as<float>(), chunk + 1 < chunk_count(sequence),
            queries_apart ? own : nullptr};
  }
  const std::uint16_t* queries(int chunk) const {
    return whole.qkv.as<std::uint16_t>() + batch(chunk).past * whole.shape.columns();
  }
  std::uint16_t* context(int chunk) const {
    return whole.context.as<std::uint16_t>() + batch(chunk).past * whole.shape.context_columns();
  }
  AttentionBackward tensors(int chunk) const {
    const std::int64_t past = batch(chunk).past, columns = whole.shape.context_columns();
    return {whole.starts(),
            queries_apart ? nullptr : queries(chunk),
            context(chunk),
            lse[static_cast<std::size_t>(chunk)].as<float>(),
            whole.d_context.as<std::uint16_t>() + past * columns,
            whole.d_qkv.as<std::uint16_t>() + past * whole.shape.columns(),
            keys(chunk)};
  }
  /// Chunks forward from the first on, and backward from the last on.
  template <typename Forward, typename Backward>
  void run(const Forward& forward, const Backward& backward) {
    for (int c = 0; c < chunk_count(sequence); ++c)
      forward(shape(c), whole.starts(), queries(c), keys(c), context(c), lse[static_cast<std::size_t>(c)].as<float>());
    for (int c = chunk_count(sequence) - 1; c >= 0; --c) backward(shape(c), tensors(c), batch(c));
  }
};

using ChunkAttention = GpuTest;

/// Plain kernels, tiles and whatever the library takes, against the uncut sequence: chunks that do not divide the
/// length, that are no multiple of a tile, one token beyond a chunk, chunks for the library, documents across them. The
/// bits are the same where backward finds the queries apart.
TEST_F(ChunkAttention, IsThatOfTheUncutSequenceAndRepeatsItsBits) {
  struct Cut {
    AttentionSpec shape;
    std::int64_t chunk;
    std::vector<int> documents;
  };
  const Cut cuts[] = {{{1, 300, 4, 2, 64}, 128, {}},         {{1, 257, 7, 1, 128}, 64, {}},
                      {{1, 513, 4, 2, 128}, 100, {}},        {{1, 1024, 14, 2, 128}, 256, {}},
                      {{1, 1152, 8, 4, 64}, 512, {}},        {{1, 191, 3, 3, 40}, 63, {}},
                      {{1, 100, 3, 1, 20}, 33, {}},          {{1, 700, 4, 2, 64}, 150, {50, 1, 270, 64, 13}},
                      {{1, 640, 7, 1, 128}, 128, {500, 129}}};
  for (const Cut& cut : cuts) {
    Problem problem(cut.shape, 256, cut.documents);
    problem.plain_forward();
    const auto context = problem.context_values();
    plain_attention_backward(cut.shape, problem.tensors(), nullptr);
    const auto gradient = problem.gradient_values();
    CutProblem chunks(problem, cut.chunk);
    BatchShape sequence = chunks.sequence;
    DeviceMemory workspace(library_workspace_bytes(model_of(cut.shape), sequence));
    const LibraryWorkspace library{workspace.data(), workspace.bytes()};
    Attention attention;
    for (const char* who : {"plain", "tiles", "library"}) {
      const std::string name = who;
      if (name == "tiles" && !attention_tiles(cut.shape)) continue;
      std::vector<std::uint16_t> first_context, first_gradient;
      for (int turn = 0; turn < 3; ++turn) {
        problem.poison();
        chunks.queries_apart = turn == 2;
        chunks.run(
            [&](const AttentionSpec& shape, const std::int32_t* starts, const std::uint16_t* qkv, const ChunkKeys& keys,
                std::uint16_t* to, float* lse) {
              if (name == "library") return attention.forward(shape, starts, qkv, keys, to, lse, library, nullptr);
              const auto run = name == "plain" ? plain_attention_forward : tiled_attention_forward;
              run(shape, starts, qkv, keys, to, lse, nullptr);
            },
            [&](const AttentionSpec& shape, const AttentionBackward& tensors, const BatchShape& batch) {
              if (name == "library")
                return attention.backward(shape, tensors, attention_backward_piece(model_of(cut.shape), batch), true,
                                          library, nullptr);
              const auto run = name == "plain" ? plain_attention_backward : tiled_attention_backward;
              run(shape, tensors, nullptr);
            });
        const std::string where = name + ", " + std::to_string(cut.shape.length) + " by " + std::to_string(cut.chunk);
        EXPECT_LT(relative_error(problem.context_values(), context), 5e-3) << where;
        EXPECT_LT(relative_error(problem.gradient_values(), gradient), 1e-2) << where;
        if (turn == 0) {
          first_context = problem.context_values();
          first_gradient = problem.gradient_values();
        }
        EXPECT_EQ(problem.context_values(), first_context) << where;
        EXPECT_EQ(problem.gradient_values(), first_gradient) << where;
      }
    }
  }
}

using PlainAttention = GpuTest;

void expect_formula(const std::vector<int>& documents, std::int64_t window = 0) {
  const AttentionSpec shape = under_window({2, 150, 4, 2, 20}, window);
  Problem problem(shape, 256, documents);
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
        std::int64_t first =
            documents.empty() ? 0 : problem.document_starts[static_cast<std::size_t>(s * shape.length + t)];
        if (window > 0) first = std::max(first, t - window + 1);
        for (std::int64_t key = first; key <= t; ++key) {
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

TEST_F(PlainAttention, MatchesTheFormulaInDoubles) { expect_formula({}); }
TEST_F(PlainAttention, OfDocumentsMatchesTheFormulaInDoubles) { expect_formula({37, 1, 60, 5}); }
TEST_F(PlainAttention, UnderAWindowMatchesTheFormulaInDoubles) {
  for (const int window : {1, 7, 128, 149}) {
    expect_formula({}, window);
    expect_formula({37, 1, 60, 5}, window);
  }
}

/// As on a card for which the library wants more than on ours.
TEST_F(PlainAttention, WhatTheLibraryDoesNotTakeOurOwnKernelsComputeAndItIsSaidOnce) {
  if (std::string(Attention::name()) == "own") GTEST_SKIP() << "built without cuDNN";
  const AttentionSpec shape{2, 1024, 4, 2, 128};
  Problem problem(shape, 256);
  problem.plain_forward();
  own_attention_backward(shape, problem.tensors(), nullptr);
  const auto gradient = problem.gradient_values();
  Attention attention;
  problem.d_qkv.fill(0xFF);
  testing::internal::CaptureStderr();
  for (int turn = 0; turn < 2; ++turn)
    attention.backward(shape, problem.tensors(), {2, 2, 0}, true, problem.library(), nullptr);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(problem.gradient_values(), gradient);
  EXPECT_NE(said.find("attention backward of 2 x 1024 tokens, 4 heads of 128, is not for cuDNN"), std::string::npos)
      << said;
  EXPECT_NE(said.find("the schedule gives 256"), std::string::npos) << said;
  EXPECT_EQ(said.find("note", said.find("note") + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace penstock::exec
