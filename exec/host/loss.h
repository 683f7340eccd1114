// The head: final norm, output projection, softmax cross entropy, and the gradients of all three in one visit. Logits
// exist for `chunk_rows` tokens at a time.
#pragma once

#include <cstdint>

#include "exec/host/gradient_sink.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// A head bound to memory; see TemplateBinding for the operands, Activation for the shapes of the scratch tensors.
template <class Storage>
struct HeadOperands {
  using Element = typename Storage::Element;
  std::int64_t chunk_rows = 0;
  const Element* final_norm = nullptr;  // [hidden]
  const Element* projection = nullptr;  // [vocabulary, hidden]; layer 0's matrix if tied
  const std::int32_t* tokens = nullptr;
  const Element* input = nullptr;
  Element* normed = nullptr;
  Element* logits = nullptr;
  Element* d_normed = nullptr;
  Element* input_gradient = nullptr;
  GradientSink<typename Storage::Real>* gradient = nullptr;
  double loss_scale = 1.0;
};

/// Returns the sum of the token losses, added in fp64 in ascending order of tokens.
template <class Storage>
double head_loss(const Model& model, BatchShape batch, const HeadOperands<Storage>& head);

/// One row of logits [vocabulary] becomes its gradient, (softmax - [target]) * loss_scale. Returns the token's loss in
/// natural log: log(sum exp(logit - max)) + max - logit[target], the sum in fp64. `scratch` [vocabulary].
template <class Storage>
double cross_entropy_row(typename Storage::Element* logits, std::int64_t vocabulary, std::int64_t target,
                         double loss_scale, typename Storage::Real* scratch);

}  // namespace penstock::exec
