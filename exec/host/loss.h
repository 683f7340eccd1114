// The head: final norm, output projection, softmax cross entropy, and the gradients of all three in one visit. Logits
// exist for `chunk_rows` tokens at a time.
#pragma once

#include <cstdint>

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// What a micro-batch's loss is made of, as the head leaves it (loss_numbers).
struct HeadLoss {
  double tokens = 0;   // sum of the losses of the tokens that are trained on
  double balance = 0;  // the load-balancing loss, without its factor; 0 unless the model asks for it
};

/// The sum of the losses of the tokens that are trained on, added in fp64 in ascending order of tokens. Without
/// a gradient operand the head is frozen, without an input gradient too the loss is all.
template <class Storage>
HeadLoss head_loss(const Model& model, BatchShape batch, const OpMemory<Storage>& op);

/// One row of logits [vocabulary] becomes its gradient, (softmax - [target]) * loss_scale. Returns the token's loss in
/// natural log: log(sum exp(logit - max)) + max - logit[target], the sum in fp64. `scratch` [vocabulary].
template <class Storage>
double cross_entropy_row(typename Storage::Element* logits, std::int64_t vocabulary, std::int64_t target,
                         double loss_scale, typename Storage::Real* scratch);

}  // namespace penstock::exec
