// The embedding's backward for every shape of runs: integers, whose sums are exact in any order, so that a row that is
// lost or added twice is a difference; and random values, for bits and accuracy.
#include <algorithm>
#include <limits>

#include "exec/cuda/kernels.h"

#include "gpu_test.h"

namespace penstock::exec {
namespace {

using Tokens = std::vector<std::int32_t>;  // of the inputs, place by place

Tokens drawn(std::int64_t count, std::int64_t distinct) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(
        random_below(7, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(distinct))));
  return tokens;
}

/// Token t comes counts[t] times, each token's places spread over the others'.
Tokens with_counts(std::vector<int> counts) {
  Tokens tokens;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t t = 0; t < counts.size(); ++t)
      if (counts[t] > 0) {
        --counts[t];
        tokens.push_back(static_cast<std::int32_t>(t));
        any = true;
      }
  }
  return tokens;
}

Tokens all_distinct(std::int64_t count) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % count));
  return tokens;
}

struct Case {
  std::string name;
  BatchShape batch;
  std::int64_t hidden, vocabulary;
  Tokens inputs;
  ElementType type = ElementType::fp32;
  bool accumulates = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case>& cases() {
  constexpr auto kBf16 = ElementType::bf16, kFp32 = ElementType::fp32;
  // A segment has 32 rows up to 4096 places: runs of one row less, just as many, one more, the same for two and four.
  const std::vector<int> edges = {32, 33, 1, 31, 64, 65, 63, 128, 129, 127, 2, 33, 33, 96};  // 837 = 31 x 27
  static const std::vector<Case> all = {
      {"one_place", {1, 1}, 128, 10, {3}},
      {"runs_around_whole_segments", {31, 27}, 64, 20, with_counts(edges)},
      {"runs_around_whole_segments_bf16", {31, 27}, 64, 20, with_counts(edges), kBf16},
      {"runs_around_whole_segments_overwriting", {27, 31}, 64, 20, with_counts(edges), kFp32, false},
      {"few_distinct", {16, 1024}, 256, 300, drawn(16384, 100)},
      {"few_distinct_bf16_overwriting", {16, 1024}, 256, 300, drawn(16384, 100), kBf16, false},
      {"one_distinct", {4, 1024}, 128, 300, Tokens(4096, 299)},
      {"one_distinct_of_many_places", {2, 8192}, 64, 3, Tokens(16384, 1)},
      {"all_distinct", {4, 1000}, 64, 4001, all_distinct(4000)},
      {"all_distinct_overwriting", {4, 1000}, 64, 4001, all_distinct(4000), kFp32, false},
      {"whole_vocabulary", {8, 512}, 128, 5000, drawn(4096, 5000)},
      {"odd_sizes", {3, 37}, 100, 50, drawn(111, 2)},
      {"odd_sizes_bf16", {3, 331}, 90, 50, drawn(993, 5), kBf16},
      {"two_slices_of_columns", {2, 300}, 2312, 16, drawn(600, 6)},
      {"segments_of_40_rows", {1, 5001}, 32, 9, drawn(5001, 4)},
      {"segments_longer_than_a_block", {1, 70001}, 8, 9, drawn(70001, 3)},
  };
  return all;
}

/// With a target behind each sequence, as the op has them: it is no input, and counting it would be one row too many.
std::vector<std::int32_t> with_targets(const Case& c, const Tokens& inputs) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t s = 0; s < c.batch.sequences; ++s) {
    const auto begin = inputs.begin() + s * c.batch.sequence_length;
    tokens.insert(tokens.end(), begin, begin + c.batch.sequence_length);
    tokens.push_back(0);
  }
  return tokens;
}

/// [vocabulary, hidden] after backward on top of `before`. `garbage` fills the scratch.
std::vector<float> backward(const Case& c, const Tokens& inputs, const std::vector<std::uint16_t>& d_output,
                            const std::vector<std::uint16_t>& before, int garbage) {
  const bool bf16 = c.type == ElementType::bf16;
  std::vector<float> values;
  for (const std::uint16_t value : before) values.push_back(widen_bf16(value));
  const DeviceMemory tokens = to_device(with_targets(c, inputs)), rows = to_device(d_output);
  DeviceMemory gradient = bf16 ? to_device(before) : to_device(values);
  DeviceMemory order(8 * c.batch.tokens()), partials(4 * kReductionRows * c.hidden);
  order.fill(garbage);
  partials.fill(garbage);
  const GradientTarget target{gradient.data(), c.type, c.accumulates};
  if (!c.accumulates) embedding_gradient_zero(target, c.hidden, c.vocabulary, nullptr);
  embedding_backward(tokens.as<std::int32_t>(), rows.as<std::uint16_t>(), target, order.as<std::int32_t>(),
                     partials.as<float>(), c.batch, c.hidden, c.vocabulary, nullptr);
  synchronize_device();
  if (!bf16) return to_host<float>(gradient, c.vocabulary * c.hidden);
  values.clear();
  for (const std::uint16_t value : to_host<std::uint16_t>(gradient, c.vocabulary * c.hidden))
    values.push_back(widen_bf16(value));
  return values;
}

/// The same in fp64, rounded once.
std::vector<double> expected(const Case& c, const std::vector<std::uint16_t>& d_output,
                             const std::vector<std::uint16_t>& before) {
  std::vector<double> sums(before.size());
  if (c.accumulates)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = value_of(before[i]);
  for (std::int64_t row = 0; row < c.batch.tokens(); ++row)
    for (std::int64_t column = 0; column < c.hidden; ++column)
      sums[static_cast<std::size_t>(c.inputs[static_cast<std::size_t>(row)] * c.hidden + column)] +=
          value_of(d_output[static_cast<std::size_t>(row * c.hidden + column)]);
  return sums;
}

std::vector<std::uint16_t> integers(std::int64_t count, std::uint64_t key) {
  std::vector<std::uint16_t> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(round_to_bf16(static_cast<float>(random_below(key, static_cast<std::uint64_t>(i), 17)) - 8.0f));
  return values;
}

class CudaEmbeddingBackwardTest : public GpuTestWith<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaEmbeddingBackwardTest, ::testing::ValuesIn(cases()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_P(CudaEmbeddingBackwardTest, AddsEachRowOnce) {
  const Case& c = GetParam();
  ASSERT_EQ(static_cast<std::int64_t>(c.inputs.size()), c.batch.tokens());
  const auto d_output = integers(c.batch.tokens() * c.hidden, 1), before = integers(c.vocabulary * c.hidden, 2);
  std::vector<float> exact;  // below 2^24: 70001 x 8 + 8
  for (const double value : expected(c, d_output, before)) {
    const auto sum = static_cast<float>(value);
    exact.push_back(c.type == ElementType::bf16 ? widen_bf16(round_to_bf16(sum)) : sum);
  }
  const std::vector<float> actual = backward(c, c.inputs, d_output, before, 0xFF);
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_EQ(actual[i], exact[i]) << "token " << i / static_cast<std::size_t>(c.hidden) << " column "
                                   << i % static_cast<std::size_t>(c.hidden);
}

// Scratch is garbage; another numbering of the tokens sorts the runs in another order.
TEST_P(CudaEmbeddingBackwardTest, BitsDependOnATokensRowsAlone) {
  const Case& c = GetParam();
  const auto d_output = random_bf16("d_output", c.batch.tokens() * c.hidden, 0, 1);
  const std::vector<std::uint16_t> before(static_cast<std::size_t>(c.vocabulary * c.hidden));
  const std::vector<float> actual = backward(c, c.inputs, d_output, before, 0xFF);
  EXPECT_LT(relative_error(std::vector<double>(actual.begin(), actual.end()), expected(c, d_output, before)),
            c.type == ElementType::fp32 ? 1e-6 : 5e-3);
  EXPECT_EQ(backward(c, c.inputs, d_output, before, 0x00), actual);
  Tokens renumbered = c.inputs;
  for (std::int32_t& token : renumbered) token = static_cast<std::int32_t>(c.vocabulary) - 1 - token;
  std::vector<float> reversed = backward(c, renumbered, d_output, before, 0xFF), mirrored;
  for (auto row = reversed.end(); row != reversed.begin(); row -= c.hidden)
    mirrored.insert(mirrored.end(), row - c.hidden, row);
  EXPECT_EQ(mirrored, actual);
}

using CudaEmbeddingTest = GpuTest;

// The input op refuses such ids; a rehearsal and an aborted run may read anything.
TEST_F(CudaEmbeddingTest, StaysInItsTableWhateverLiesWhereIdsAreRead) {
  Case c{"", {2, 4}, 64, 10, {-1, 3, 10, std::numeric_limits<std::int32_t>::min(), 0, 9, 11, 1 << 30}};
  Case last = c;  // the same, counted as the last id
  last.inputs = {9, 3, 9, 9, 0, 9, 9, 9};
  const auto d_output = integers(c.batch.tokens() * c.hidden, 1), table = integers(c.vocabulary * c.hidden, 2);
  EXPECT_EQ(backward(c, c.inputs, d_output, table, 0xFF), backward(last, last.inputs, d_output, table, 0xFF));
  const DeviceMemory tokens = to_device(with_targets(c, c.inputs)), weights = to_device(table);
  DeviceMemory output(2 * c.batch.tokens() * c.hidden);
  embedding_forward(tokens.as<std::int32_t>(), weights.as<std::uint16_t>(), output.as<std::uint16_t>(), c.batch,
                    c.hidden, c.vocabulary, nullptr);
  synchronize_device();
  std::vector<std::uint16_t> rows;
  for (const std::int32_t id : last.inputs)
    rows.insert(rows.end(), table.begin() + id * c.hidden, table.begin() + (id + 1) * c.hidden);
  EXPECT_EQ(to_host<std::uint16_t>(output, c.batch.tokens() * c.hidden), rows);
}

}  // namespace
}  // namespace penstock::exec
