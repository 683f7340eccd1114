// A router's choice, its gradient and the order of rows on the GPU against the host's: the same experts and the same order,
// also of routers that have gone wrong.
#include "exec/cuda/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/host/balance.h"
#include "exec/host/experts.h"

#include "gpu_test.h"
#include "shared/ignored_label.h"
#include "shared/model/activations.h"

namespace penstock::exec {
namespace {

struct Case {
  std::string name;
  std::int64_t experts, per_token, tokens;
  bool normalised = true;
  // Of the random logits: some are made equal, or NaN, or one is the best of all tokens.
  enum class Logits { any, equal, nan, one_expert } logits = Logits::any;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case>& cases() {
  using enum Case::Logits;
  static const std::vector<Case> all = {
      {"one_expert", 1, 1, 5},
      {"top_1", 8, 1, 1000, false},
      {"top_2", 8, 2, 4097},
      {"top_8", 128, 8, 3000},
      {"top_8_not_normalised", 64, 8, 513, false},
      {"all_chosen", 7, 7, 100, false},
      {"odd_number", 77, 3, 65},
      {"most_experts", 1024, 5, 70},
      {"many_rows", 33, 9, 70000},
      {"equal", 40, 4, 200, true, equal},
      {"nan", 40, 4, 200, false, nan},
      {"all_to_one", 16, 1, 3000, true, one_expert},
      {"all_to_one_and_others", 16, 3, 3000, true, one_expert},
  };
  return all;
}

std::vector<float> logits_of(const Case& c) {
  std::vector<float> logits(static_cast<std::size_t>(c.tokens * c.experts));
  const std::uint64_t key = random_key(5, c.name);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto expert = static_cast<std::int64_t>(i) % c.experts;
    logits[i] = 2 * random_normal(key, i);
    if (c.logits == Case::Logits::equal) logits[i] = std::round(logits[i]);
    if (c.logits == Case::Logits::nan && random_below(key + 1, i, 9) == 0)
      logits[i] = std::numeric_limits<float>::quiet_NaN();
    if (c.logits == Case::Logits::one_expert && expert == 11) logits[i] = 50;
  }
  return logits;
}

class CudaExperts : public GpuTestWith<Case> {
 protected:
  const Case& c_ = GetParam();
  const Experts experts_{
      .count = c_.experts, .per_token = c_.per_token, .normalised = c_.normalised, .dense_layers = {}};
  const std::int64_t choices_ = c_.tokens * c_.per_token;
  const std::vector<float> logits_ = logits_of(c_);
  std::vector<std::int32_t> choice_ = std::vector<std::int32_t>(static_cast<std::size_t>(choices_));
  std::vector<float> weights_ = std::vector<float>(static_cast<std::size_t>(choices_));
};
INSTANTIATE_TEST_SUITE_P(Cases, CudaExperts, ::testing::ValuesIn(cases()),
                         [](const auto& parameter) { return parameter.param.name; });

/// NaN in both, or close.
void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << i;
    } else {
      ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
    }
  }
}

TEST_P(CudaExperts, ChoosesAsTheHostDoes) {
  choose_experts(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data());
  const DeviceMemory logits = to_device(logits_);
  const DeviceMemory choice(4 * choices_), weights(4 * choices_);
  expert_choice(experts_, logits.as<float>(), c_.tokens, choice.as<std::int32_t>(), weights.as<float>(), nullptr);
  synchronize_device();
  EXPECT_EQ(to_host<std::int32_t>(choice, choices_), choice_);
  expect_close(to_host<float>(weights, choices_), weights_, 1e-5);
}

TEST_P(CudaExperts, GradientOfTheLogitsIsTheHosts) {
  choose_experts(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data());
  std::vector<float> d_weights(static_cast<std::size_t>(choices_)), d_logits(logits_.size());
  for (std::size_t i = 0; i < d_weights.size(); ++i) d_weights[i] = random_normal(6, i);
  choose_experts_backward(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data(), d_weights.data(),
                          d_logits.data());
  const DeviceMemory logits = to_device(logits_), choice = to_device(choice_), weights = to_device(weights_);
  const DeviceMemory on_d_weights = to_device(d_weights);
  const auto count = static_cast<std::int64_t>(logits_.size());
  const DeviceMemory high(2 * count), low(2 * count);
  expert_choice_backward(experts_, logits.as<float>(), c_.tokens, choice.as<std::int32_t>(), weights.as<float>(),
                         on_d_weights.as<float>(), {}, {high.as<std::uint16_t>(), low.as<std::uint16_t>()}, nullptr);
  synchronize_device();
  const auto highs = to_host<std::uint16_t>(high, count), lows = to_host<std::uint16_t>(low, count);
  std::vector<float> sums(highs.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = widen_bf16(highs[i]) + widen_bf16(lows[i]);
  expect_close(sums, d_logits, 1e-4);
}

/// Rows of packed documents whose last one is padding in some rows; the last row is what is left of the tokens.
struct Documents {
  std::vector<std::int32_t> labels, starts;
  BatchShape batch;

  explicit Documents(std::int64_t tokens) : batch{1, tokens, BatchKind::packed} {
    if (tokens % 5 == 0) batch.sequences = 5, batch.sequence_length = tokens / 5;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t sequence = i / batch.sequence_length, place = i % batch.sequence_length;
      const std::int64_t last = 2 * batch.sequence_length / 3;
      const bool is_last = place >= last;
      starts.push_back(static_cast<std::int32_t>(is_last ? last : 0));
      labels.push_back(is_last && (sequence % 2 == 0 || place > last) ? kIgnoredLabel : 1);
    }
  }
};

TEST_P(CudaExperts, BalanceIsTheHosts) {
  choose_experts(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data());
  const Documents rows(c_.tokens);
  const std::int64_t elements = 2 * c_.experts;
  std::vector<double> before(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<double>(i % 7);
  const DeviceMemory logits = to_device(logits_), choice = to_device(choice_), on_before = to_device(before);
  const DeviceMemory labels = to_device(rows.labels), starts = to_device(rows.starts);
  const DeviceMemory workspace(kLibraryWorkspaceBytes), on_after(8 * elements);
  for (const bool packed : {false, true}) {
    const RealTokens real = packed ? RealTokens(rows.batch, rows.labels.data(), rows.starts.data())
                                   : RealTokens({1, c_.tokens}, nullptr, nullptr);
    std::vector<double> after(before.size());
    add_balance(experts_, logits_.data(), choice_.data(), real, before.data(), after.data());
    const RowLabels on_rows{labels.as<std::int32_t>(), starts.as<std::int32_t>(), rows.batch.sequence_length};
    const auto run = [&] {
      expert_balance(experts_, logits.as<float>(), choice.as<std::int32_t>(), c_.tokens, packed ? on_rows : RowLabels{},
                     on_before.as<double>(), on_after.as<double>(), {workspace.data(), workspace.bytes()}, nullptr);
      synchronize_device();
      return to_host<double>(on_after, elements);
    };
    const std::vector<double> found = run();
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (i < after.size() / 2) {
        ASSERT_EQ(found[i], after[i]) << i;  // counts
      } else if (std::isnan(after[i])) {
        ASSERT_TRUE(std::isnan(found[i])) << i;
      } else {
        ASSERT_NEAR(found[i], after[i], 1e-5 * (1 + after[i])) << i;
      }
    }
    const std::vector<double> again = run();
    EXPECT_EQ(std::memcmp(again.data(), found.data(), 8 * again.size()), 0);
  }
}

TEST_P(CudaExperts, BalanceLossAndItsGradientAreTheHosts) {
  choose_experts(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data());
  const Documents rows(c_.tokens);
  const RealTokens real(rows.batch, rows.labels.data(), rows.starts.data());
  std::vector<double> sums(static_cast<std::size_t>(2 * c_.experts)), gradient(sums.size());
  add_balance(experts_, logits_.data(), choice_.data(), real, sums.data(), sums.data());
  const double scale = 100.0 * static_cast<double>(c_.tokens);  // so that what it adds is of the order of 1
  const double loss = balance_loss(experts_, sums.data(), scale, gradient.data());
  const DeviceMemory on_sums = to_device(sums), on_loss(8), on_gradient(8 * 2 * c_.experts);
  expert_balance_loss(experts_, on_sums.as<double>(), scale, on_loss.as<double>(), on_gradient.as<double>(), nullptr);
  synchronize_device();
  const double found = to_host<double>(on_loss, 1).front();
  if (std::isnan(loss)) {
    EXPECT_TRUE(std::isnan(found));
  } else {
    EXPECT_NEAR(found, loss, 1e-12 * loss);
  }
  const auto gradients = to_host<double>(on_gradient, 2 * c_.experts);
  for (std::size_t e = 0; e < gradient.size(); ++e)
    ASSERT_NEAR(gradients[e], gradient[e], 1e-12 * (1 + gradient[e])) << e;

  const std::vector<float> d_weights(static_cast<std::size_t>(choices_), 0.25f);
  std::vector<float> d_logits(logits_.size());
  choose_experts_backward(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data(), d_weights.data(),
                          d_logits.data());
  add_balance_gradient(experts_, logits_.data(), real, gradient.data(), d_logits.data());
  const DeviceMemory logits = to_device(logits_), choice = to_device(choice_), weights = to_device(weights_);
  const DeviceMemory on_d_weights = to_device(d_weights), labels = to_device(rows.labels),
                     starts = to_device(rows.starts);
  const auto count = static_cast<std::int64_t>(logits_.size());
  const DeviceMemory high(2 * count), low(2 * count);
  expert_choice_backward(
      experts_, logits.as<float>(), c_.tokens, choice.as<std::int32_t>(), weights.as<float>(), on_d_weights.as<float>(),
      {on_gradient.as<double>(), {labels.as<std::int32_t>(), starts.as<std::int32_t>(), rows.batch.sequence_length}},
      {high.as<std::uint16_t>(), low.as<std::uint16_t>()}, nullptr);
  synchronize_device();
  const auto highs = to_host<std::uint16_t>(high, count), lows = to_host<std::uint16_t>(low, count);
  std::vector<float> sum(highs.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = widen_bf16(highs[i]) + widen_bf16(lows[i]);
  double largest = 1;
  for (const double g : gradient) largest = std::max(largest, g);
  expect_close(sum, d_logits, 1e-4 * largest);
}

TEST_P(CudaExperts, OrderIsTheHosts) {
  choose_experts(experts_, logits_.data(), c_.tokens, choice_.data(), weights_.data());
  std::vector<std::int32_t> first(static_cast<std::size_t>(c_.experts + 1)), row(choice_.size()), of(choice_.size());
  order_rows(experts_, choice_.data(), c_.tokens, {first.data(), row.data(), of.data()});
  const DeviceMemory choice = to_device(choice_), workspace(kLibraryWorkspaceBytes);
  const DeviceMemory on_first(4 * (c_.experts + 1)), on_row(4 * choices_), on_of(4 * choices_);
  expert_order(experts_, choice.as<std::int32_t>(), c_.tokens,
               {on_first.as<std::int32_t>(), on_row.as<std::int32_t>(), on_of.as<std::int32_t>()},
               {workspace.data(), workspace.bytes()}, nullptr);
  synchronize_device();
  EXPECT_EQ(to_host<std::int32_t>(on_first, c_.experts + 1), first);
  EXPECT_EQ(to_host<std::int32_t>(on_row, choices_), row);
  EXPECT_EQ(to_host<std::int32_t>(on_of, choices_), of);
}

// A rehearsal runs over whatever lies there.
TEST(CudaExpertOrder, OfNoExpertsStaysWithinItsTables) {
  if (!why_no_device().empty()) GTEST_SKIP() << "needs a CUDA device";
  const Experts experts{.count = 5, .per_token = 2, .dense_layers = {}};
  const std::vector<std::int32_t> wrong{-1, 5, 1 << 30, 3, std::numeric_limits<std::int32_t>::min(), 4};
  const DeviceMemory choice = to_device(wrong), workspace(kLibraryWorkspaceBytes);
  const DeviceMemory first(4 * 6), row(4 * 6), of(4 * 6);
  expert_order(experts, choice.as<std::int32_t>(), 3,
               {first.as<std::int32_t>(), row.as<std::int32_t>(), of.as<std::int32_t>()},
               {workspace.data(), workspace.bytes()}, nullptr);
  synchronize_device();
  EXPECT_EQ(to_host<std::int32_t>(first, 6), (std::vector<std::int32_t>{0, 0, 0, 0, 1, 6}));
  EXPECT_EQ(to_host<std::int32_t>(of, 6), (std::vector<std::int32_t>{3, 0, 1, 2, 4, 5}));
}

}  // namespace
}  // namespace penstock::exec
