#include "exec/host/loss.h"

#include <algorithm>
#include <cmath>

#include "exec/host/balance.h"
#include "exec/host/embedding.h"
#include "exec/host/lanes.h"
#include "exec/host/matmul.h"
#include "exec/host/rmsnorm.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {

template <class Storage>
double cross_entropy_row(typename Storage::Element* logits, std::int64_t vocabulary, std::int64_t target,
                         double loss_scale, typename Storage::Real* scratch) {
  using Real = typename Storage::Real;
  widen<Storage>(logits, vocabulary, scratch);
  const auto target_logit = static_cast<double>(scratch[target]);
  const Real largest = lane_max(scratch, vocabulary);
  for (std::int64_t i = 0; i < vocabulary; ++i) scratch[i] -= largest;
  std::fill(scratch + vocabulary, scratch + pad_to_lanes(vocabulary), Real{0});
  exponentials(scratch, vocabulary);
  const double sum = lane_sum<double>(vocabulary, [scratch](std::int64_t i) { return scratch[i]; });
  const Real inverse = static_cast<Real>(1.0 / sum), scale = static_cast<Real>(loss_scale);
  const Real probability_minus_one = scratch[target] * inverse - Real{1};
  for (std::int64_t i = 0; i < vocabulary; ++i) logits[i] = Storage::store(scratch[i] * inverse * scale);
  logits[target] = Storage::store(probability_minus_one * scale);
  return std::log(sum) + static_cast<double>(largest) - target_logit;
}

template <class Storage>
HeadLoss head_loss(const Model& model, BatchShape batch, const OpMemory<Storage>& op) {
  using Real = typename Storage::Real;
  const std::int64_t hidden = model.config.hidden, vocabulary = model.config.vocabulary, tokens = batch.tokens();
  using Element = typename Storage::Element;
  const TokenView view(op.template at<std::int32_t>(TemplateOperand::tokens),
                       op.template at<std::int32_t>(TemplateOperand::labels), batch, vocabulary);
  const Element* const weights = op.at(TemplateOperand::weights);
  const Element* const final_norm = weights + model.head.final_norm;
  const Element* const projection_weights =
      model.config.tied_embeddings ? op.at(TemplateOperand::tied_weights) : weights + model.head.projection;
  ScratchScope scratch;
  const Matrix<Real> projection(scratch.take<Real>(vocabulary * hidden), vocabulary, hidden);
  const bool trains = op.gradient != nullptr, has_backward = op.at(TemplateOperand::input_gradient) != nullptr;
  const Matrix<Real> d_projection(trains ? scratch.take<Real>(vocabulary * hidden) : nullptr, vocabulary, hidden);
  Real* const normed_chunk = scratch.take<Real>(op.chunk_rows * hidden);
  Real* const logits_chunk = scratch.take<Real>(op.chunk_rows * vocabulary);
  Real* const row = scratch.take<Real>(vocabulary);
  Real* const d_norm = scratch.take<Real>(hidden);
  widen<Storage>(projection_weights, vocabulary * hidden, projection.data);
  before(op.clock, KernelId::logits);
  if (trains) {
    std::fill_n(d_projection.data, vocabulary * hidden, Real{0});
    before(op.clock, KernelId::projection_weight_gradient);
  }
  rmsnorm<Storage>(op.at(TemplateOperand::input), final_norm, op.at(Activation::normed), tokens, hidden,
                   model.config.rms_epsilon);
  after(op.clock, KernelId::final_norm);

  HeadLoss loss;
  for (std::int64_t begin = 0; begin < tokens; begin += op.chunk_rows) {
    const std::int64_t rows = std::min(op.chunk_rows, tokens - begin);
    const Matrix<Real> normed(normed_chunk, rows, hidden), logits(logits_chunk, rows, vocabulary);
    widen<Storage>(op.at(Activation::normed) + begin * hidden, rows * hidden, normed.data);
    multiply_transposed(normed, projection, logits);
    narrow<Storage>(logits.data, rows * vocabulary, op.at(Activation::logits));
    after(op.clock, KernelId::logits);
    for (std::int64_t r = 0; r < rows; ++r) {
      Element* const row_logits = op.at(Activation::logits) + r * vocabulary;
      if (const auto target = view.target(begin + r))
        loss.tokens += cross_entropy_row<Storage>(row_logits, vocabulary, *target, op.loss_scale, row);
      else
        std::fill_n(row_logits, vocabulary, Element{});
    }
    after(op.clock, KernelId::cross_entropy);
    if (!has_backward) continue;
    widen<Storage>(op.at(Activation::logits), rows * vocabulary, logits.data);
    if (trains) {
      add_transposed_product(logits, normed, d_projection);
      after(op.clock, KernelId::projection_weight_gradient);
    }
    multiply(logits, projection, normed);
    narrow<Storage>(normed.data, rows * hidden, op.at(Activation::d_normed) + begin * hidden);
    after(op.clock, KernelId::projection_input_gradient);
  }
  if (balances(model.config))
    loss.balance =
        balance_loss(model.config.experts, balance_at(model.config, batch, op.at(TemplateOperand::input)),
                     model.config.experts.balance * op.balance_share,
                     has_backward ? balance_at(model.config, batch, op.at(TemplateOperand::input_gradient)) : nullptr);
  after(op.clock, KernelId::loss_sum);  // added up with the cross entropy
  if (!has_backward) return loss;
  if (trains) {
    op.gradient->add(model.head.projection, d_projection.data, vocabulary * hidden);
    also(op.clock, KernelId::projection_weight_gradient);
  }
  rmsnorm_backward<Storage>(op.at(TemplateOperand::input), final_norm, op.at(Activation::d_normed), nullptr,
                            op.at(TemplateOperand::input_gradient), d_norm, tokens, hidden, model.config.rms_epsilon);
  if (trains) op.gradient->add(model.head.final_norm, d_norm, hidden);
  after(op.clock, KernelId::final_norm_backward);
  return loss;
}

template double cross_entropy_row<Bf16Storage>(std::uint16_t*, std::int64_t, std::int64_t, double, float*);
template double cross_entropy_row<DoubleStorage>(double*, std::int64_t, std::int64_t, double, double*);
template HeadLoss head_loss<Bf16Storage>(const Model&, BatchShape, const OpMemory<Bf16Storage>&);
template HeadLoss head_loss<DoubleStorage>(const Model&, BatchShape, const OpMemory<DoubleStorage>&);

}  // namespace penstock::exec
