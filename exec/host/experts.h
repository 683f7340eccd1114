// The MLP of a mixture of experts: a router chooses experts for each token, whose rows are brought together expert by
// expert, multiplied, and added up again.
//
//   n2     = rmsnorm(middle)                       rows   = n2 of every choice, by experts, then by tokens
//   logits = n2 Wr^T, in fp32                      gate_up, product, y = as in a dense MLP, each expert's rows with its
//   choice = the per_token largest logits                   own weights
//   p      = softmax of all logits                 output = middle + sum over choices, best first, of w y
//   w      = p of the choice (/ sum of the chosen)
//
// Of equal logits the expert with the smaller number is better; NaN is better than any number, so that a router that
// has gone wrong chooses experts all the same, and its NaN reaches the loss. Nothing is dropped: all tokens may choose
// one expert. What comes before in the order of experts and tokens is added before: no order hangs on a thread.
//
// Backward never makes y again. With d = the gradient of output and z = d Wd of a row, the gradient of w is z . product,
// and that of product is w z.
#pragma once

#include <cstdint>

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

struct ExpertsProducts {
  bool gate_up = true;  // and what the router chooses; REQUIRES: normed
  bool output = true;
};

template <class Storage>
void experts_forward(const Model& model, BatchShape batch, const ExpertsProducts& makes, const OpMemory<Storage>& op);

/// output_gradient -> d_normed, with the gradients of the experts and the router. REQUIRES: normed. What the router chose
/// and gate_up are made again if `gate_up_is_chunk`.
template <class Storage>
void experts_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op);

// --- its parts, for tests

/// Softmax of one row of logits. Scratch and result: probabilities [count], rounded up to lanes (ScratchScope::take).
template <class Real>
void router_probabilities(const Real* logits, std::int64_t count, Real* probabilities);

/// Of each row of logits [tokens, experts]: the chosen experts, best first, and what their outputs are multiplied by.
template <class Real>
void choose_experts(const Experts& experts, const Real* logits, std::int64_t tokens, std::int32_t* choice,
                    Real* weights);

/// Gradient of the logits from that of the weights.
template <class Real>
void choose_experts_backward(const Experts& experts, const Real* logits, std::int64_t tokens,
                             const std::int32_t* choice, const Real* weights, const Real* d_weights, Real* d_logits);

/// Where the rows of a chunk lie. A choice is counted token by token.
struct ExpertOrder {
  std::int32_t* first = nullptr;      // [experts + 1]: an expert's first row, and behind the last one their number
  std::int32_t* row = nullptr;        // [rows]: the row of a choice
  std::int32_t* choice_of = nullptr;  // [rows]: the choice of a row
};
void order_rows(const Experts& experts, const std::int32_t* choice, std::int64_t tokens, const ExpertOrder& order);

}  // namespace penstock::exec
