// Packed rows: each document as if it were alone, losses and gradients of what the labels name alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "shared/ignored_label.h"
#include "tests/exec/host/tiny_models.h"

namespace penstock::exec {
namespace {

constexpr double kTolerance = 1e-5;  // relative, of a tensor

using Gradients = std::vector<std::vector<double>>;

BatchShape packed(std::int64_t sequences, std::int64_t length) { return {sequences, length, BatchKind::packed}; }

/// Tokens, and the next one of each for its label, ignored here and there.
struct Document {
  std::vector<std::int32_t> tokens, labels;

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
};

Document document(const Model& model, std::int64_t length, std::int64_t ignored_from, std::int64_t ignored_to) {
  const std::vector<std::int32_t> ids = tiny_tokens(model, {1, length + 40});
  Document d;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<std::size_t>(i + length % 40);  // others for each length
    d.tokens.push_back(ids[at]);
    d.labels.push_back(i >= ignored_from && i < ignored_to ? kIgnoredLabel : ids[at + 1]);
  }
  return d;
}

/// One behind the other; the rest of the row is a document without labels.
TinyRows row_of(const std::vector<Document>& documents, std::int64_t length) {
  TinyRows row(std::vector<std::int32_t>{});
  for (const Document& d : documents) {
    const auto start = static_cast<std::int32_t>(row.tokens.size());
    row.tokens.insert(row.tokens.end(), d.tokens.begin(), d.tokens.end());
    row.labels.insert(row.labels.end(), d.labels.begin(), d.labels.end());
    row.document_starts.resize(row.tokens.size(), start);
  }
  const auto rest = static_cast<std::int32_t>(row.tokens.size());
  row.tokens.resize(static_cast<std::size_t>(length), 0);
  row.labels.resize(static_cast<std::size_t>(length), kIgnoredLabel);
  row.document_starts.resize(static_cast<std::size_t>(length), rest);
  return row;
}

void add(Gradients& sum, const Gradients& part) {
  if (sum.empty()) sum.resize(part.size());
  for (std::size_t layer = 0; layer < part.size(); ++layer) {
    sum[layer].resize(part[layer].size());
    for (std::size_t i = 0; i < part[layer].size(); ++i) sum[layer][i] += part[layer][i];
  }
}

/// ||a - b|| / ||b|| of the tensor in which that is the largest.
double distance(const Model& model, const Gradients& a, const Gradients& b) {
  double largest = 0;
  for (const Layer& layer : model.layers)
    for (const ParameterTensor& tensor : layer.tensors) {
      double difference = 0, size = 0;
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements(); ++i) {
        const auto l = static_cast<std::size_t>(layer.index), at = static_cast<std::size_t>(i);
        difference += (a[l][at] - b[l][at]) * (a[l][at] - b[l][at]);
        size += b[l][at] * b[l][at];
      }
      EXPECT_GT(size, 0) << tensor.name;
      largest = std::max(largest, std::sqrt(difference / size));
    }
  return largest;
}

class PackedRowsOf : public testing::TestWithParam<ModelConfig> {
 protected:
  const Model model_ = make_model(GetParam());
  const Gradients weights_ = tiny_weights(model_);
  // Longer than a block of attention, across its edges, one token; a row of 150 has 6 places left.
  const std::vector<Document> documents_{document(model_, 30, 0, 12), document(model_, 1, 0, 0),
                                         document(model_, 90, 20, 21), document(model_, 23, 5, 9)};
  const TinyRows row_ = row_of(documents_, 150);

  WholeRun in_double(BatchShape batch, const TinyRows& rows, double scale = 1.0) const {
    return run_in_double(model_, batch, {.mlp_tokens = 64, .loss_tokens = 50}, weights_, rows, scale, true);
  }
  /// Through the templates, in bf16.
  WholeRun in_bf16(BatchShape batch, const TinyRows& rows) const {
    const TemplateResult result = run_templates(model_, batch, weights_, {rows}, {.keep = Keep::input});
    WholeRun run;
    run.loss = result.losses[0];
    for (const auto& gradient : result.gradients)
      run.gradients.push_back(widened_gradient(gradient, ElementType::fp32));
    return run;
  }
  template <class Run>
  WholeRun each_alone(const Run& run) const {
    WholeRun sum;
    for (const Document& d : documents_) {
      const WholeRun alone = run(packed(1, d.length()), row_of({d}, d.length()));
      sum.loss += alone.loss;
      add(sum.gradients, alone.gradients);
    }
    return sum;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, PackedRowsOf, testing::Values(tiny_llama(), tiny_qwen2(), tiny_qwen3()),
                         [](const auto& parameter) {
                           return std::string(model_family_names()[static_cast<std::size_t>(parameter.param.family)]);
                         });

TEST_P(PackedRowsOf, AreEachDocumentAlone) {
  const auto run = [&](BatchShape batch, const TinyRows& rows) { return in_double(batch, rows); };
  const WholeRun together = run(packed(1, 150), row_), alone = each_alone(run);
  EXPECT_NEAR(together.loss / alone.loss, 1, 1e-12);
  EXPECT_LT(distance(model_, together.gradients, alone.gradients), 1e-10);
}

TEST_P(PackedRowsOf, AreEachDocumentAloneInBf16) {
  const auto run = [&](BatchShape batch, const TinyRows& rows) { return in_bf16(batch, rows); };
  const WholeRun together = run(packed(1, 150), row_), alone = each_alone(run);
  EXPECT_NEAR(together.loss / alone.loss, 1, kTolerance);
  EXPECT_LT(distance(model_, together.gradients, alone.gradients), kTolerance);
}

/// Each of the boundaries, a place to the left or to the right.
TEST_P(PackedRowsOf, DifferIfABoundaryMovesByOneToken) {
  const WholeRun right = in_double(packed(1, 150), row_);
  for (const std::int32_t boundary : {30, 31, 121}) {
    for (const bool left : {false, true}) {
      TinyRows moved = row_;
      const auto at = static_cast<std::size_t>(boundary);
      if (left)
        for (std::int32_t& start : moved.document_starts) start -= start == boundary ? 1 : 0;
      moved.document_starts[left ? at - 1 : at] = left ? boundary - 1 : moved.document_starts[at - 1];
      if (!left)
        for (std::int32_t& start : moved.document_starts) start += start == boundary ? 1 : 0;
      const WholeRun wrong = in_double(packed(1, 150), moved);
      EXPECT_GT(distance(model_, wrong.gradients, right.gradients), 10 * kTolerance) << boundary << left;
    }
  }
}

TEST_P(PackedRowsOf, OfOneDocumentAreAWindow) {
  const std::vector<std::int32_t> window = tiny_tokens(model_, {1, 80});
  TinyRows row(std::vector<std::int32_t>(window.begin(), window.end() - 1));
  row.labels.assign(window.begin() + 1, window.end());
  row.document_starts.assign(80, 0);
  const WholeRun as_window = in_double({1, 80}, window), as_row = in_double(packed(1, 80), row);
  EXPECT_EQ(as_row.loss, as_window.loss);
  EXPECT_EQ(as_row.gradients, as_window.gradients);
}

/// What does not count is as if it were not there: the sum over labels of each one's loss and gradients.
TEST_P(PackedRowsOf, MasksAddUp) {
  const std::vector<Document> whole{document(model_, 7, 0, 0), document(model_, 5, 0, 0)};
  const auto with = [&](const std::vector<std::size_t>& counted) {
    TinyRows row = row_of(whole, 12);
    for (std::size_t i = 0; i < 12; ++i)
      if (std::find(counted.begin(), counted.end(), i) == counted.end()) row.labels[i] = kIgnoredLabel;
    return in_double(packed(1, 12), row);
  };
  const WholeRun together = with({1, 4, 8});
  WholeRun sum;
  for (const std::size_t one : {1u, 4u, 8u}) {
    const WholeRun alone = with({one});
    sum.loss += alone.loss;
    add(sum.gradients, alone.gradients);
  }
  EXPECT_NEAR(together.loss, sum.loss, 1e-12);
  EXPECT_LT(distance(model_, together.gradients, sum.gradients), 1e-10);
  EXPECT_EQ(with({}).loss, 0);
}

/// Without the final norm all logits are 0, and each label that counts costs the logarithm of the vocabulary.
TEST(PackedLoss, IsTheLabelsThatCount) {
  const Model model = make_model(tiny_llama());
  auto weights = tiny_weights(model);
  for (std::int64_t i = 0; i < model.config.hidden; ++i)
    weights.back()[static_cast<std::size_t>(model.head.final_norm + i)] = 0;
  const TinyRows row = row_of({document(model, 9, 2, 5), document(model, 4, 0, 1)}, 15);
  const double each = std::log(static_cast<double>(model.config.vocabulary));
  EXPECT_NEAR(loss_in_double(model, packed(1, 15), {}, weights, row, 1.0), (6 + 3) * each, 1e-12);
  const TemplateResult result = run_templates(model, packed(1, 15), weights, {row}, {});
  EXPECT_NEAR(result.losses[0], (6 + 3) * each, 1e-5);
}

/// One label in one micro-batch, twenty in another: the gradient is that of the mean over all 21, not of two means.
TEST(PackedLoss, IsDividedByTheLabelsOfTheWholeStep) {
  const Model model = make_model(tiny_qwen2());
  const auto weights = tiny_weights(model);
  const TinyRows few = row_of({document(model, 20, 0, 19)}, 20),
                 many = row_of({document(model, 19, 0, 0), document(model, 1, 0, 0)}, 20);
  TinyRows both = few;
  for (const auto& [to, from] : {std::pair{&both.tokens, &many.tokens}, std::pair{&both.labels, &many.labels},
                                 std::pair{&both.document_starts, &many.document_starts}})
    to->insert(to->end(), from->begin(), from->end());
  const WholeRun exact = run_in_double(model, packed(2, 20), {}, weights, both, 1.0 / 21, false);
  const TemplateResult result = run_templates(model, packed(1, 20), weights, {few, many}, {.trained_tokens = 21});
  Gradients gradients;
  for (const auto& gradient : result.gradients) gradients.push_back(widened_gradient(gradient, ElementType::fp32));
  EXPECT_LT(distance(model, gradients, exact.gradients), 0.03);  // bf16's error, as in templates_test.cpp
  Gradients means = run_in_double(model, packed(1, 20), {}, weights, few, 0.5, false).gradients;
  add(means, run_in_double(model, packed(1, 20), {}, weights, many, 0.5 / 20, false).gradients);
  EXPECT_GT(distance(model, means, exact.gradients), 0.3);
}

}  // namespace
}  // namespace penstock::exec
