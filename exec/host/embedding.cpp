#include "exec/host/embedding.h"

#include <algorithm>
#include <string>

#include "exec/host/balance.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"
#include "shared/error.h"
#include "shared/ignored_label.h"

namespace penstock::exec {

std::int64_t TokenView::input(std::int64_t token) const {
  const std::int64_t sequence = token / batch_.sequence_length, position = token % batch_.sequence_length;
  return checked(ids_[sequence * batch_.token_row() + position], "token ", token, 0);
}

std::optional<std::int64_t> TokenView::target(std::int64_t token) const {
  if (batch_.kind == BatchKind::packed) {
    if (labels_[token] == kIgnoredLabel) return std::nullopt;
    return checked(labels_[token], "label ", token, 0);
  }
  const std::int64_t sequence = token / batch_.sequence_length, position = token % batch_.sequence_length;
  return checked(ids_[sequence * batch_.token_row() + position + 1], "token ", token, 1);
}

std::int64_t TokenView::checked(std::int32_t id, const char* what, std::int64_t token, std::int64_t shift) const {
  if (id < 0 || id >= vocabulary_)
    throw InputError(what + std::to_string(token % batch_.sequence_length + shift) + " of sequence " +
                     std::to_string(token / batch_.sequence_length) + " of the micro-batch is " + std::to_string(id) +
                     "; the model's vocabulary has ids from 0 to " + std::to_string(vocabulary_ - 1));
  return id;
}

template <class Storage>
void embedding_forward(const Model& model, BatchShape batch, const OpMemory<Storage>& op) {
  const std::int64_t hidden = model.config.hidden;
  const TokenView view(op.template at<std::int32_t>(TemplateOperand::tokens), nullptr, batch, model.config.vocabulary);
  const auto* const weights = op.at(TemplateOperand::weights);
  auto* const output = op.at(TemplateOperand::output);
  for (std::int64_t token = 0; token < batch.tokens(); ++token)
    std::copy_n(weights + view.input(token) * hidden, hidden, output + token * hidden);
  begin_balance(model.config, batch, output);
  after(op.clock, KernelId::embedding);
}

template <class Storage>
void embedding_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op, bool overwrites) {
  using Real = typename Storage::Real;
  const std::int64_t hidden = model.config.hidden, elements = model.config.vocabulary * hidden;
  const TokenView view(op.template at<std::int32_t>(TemplateOperand::tokens), nullptr, batch, model.config.vocabulary);
  const auto* const output_gradient = op.at(TemplateOperand::output_gradient);
  ScratchScope scratch;
  Real* const part = scratch.take<Real>(elements);
  std::fill_n(part, elements, Real{0});
  if (overwrites) after(op.clock, KernelId::embedding_gradient_zero);
  for (std::int64_t token = 0; token < batch.tokens(); ++token) {
    Real* const row = part + view.input(token) * hidden;
    for (std::int64_t i = 0; i < hidden; ++i) row[i] += Storage::load(output_gradient[token * hidden + i]);
  }
  op.gradient->add(0, part, elements);
  after(op.clock, KernelId::embedding_backward);
}

template void embedding_forward<Bf16Storage>(const Model&, BatchShape, const OpMemory<Bf16Storage>&);
template void embedding_forward<DoubleStorage>(const Model&, BatchShape, const OpMemory<DoubleStorage>&);
template void embedding_backward<Bf16Storage>(const Model&, BatchShape, const OpMemory<Bf16Storage>&, bool);
template void embedding_backward<DoubleStorage>(const Model&, BatchShape, const OpMemory<DoubleStorage>&, bool);

}  // namespace penstock::exec
