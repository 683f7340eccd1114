// A decoder layer: attention block, gated MLP, and their backward pass.
//
//   n      = rmsnorm(input)                        middle = input + attention Wo^T
//   qkv    = n Wqkv^T (+ bias)                     n2     = rmsnorm(middle)
//   qkv    = rotary(qk_norm(qkv)) on q and k       gate_up = n2 Wgu^T       (chunks of mlp_rows tokens from here)
//   attention, lse = causal attention(qkv)         output = middle + (silu(gate) up) Wd^T
#pragma once

#include <cstdint>

#include "exec/host/gradient_sink.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// A decoder layer bound to memory; see TemplateBinding for the operands, Activation for the shapes.
template <class Storage>
struct DecoderOperands {
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;
  std::int64_t mlp_rows = 0;         // tokens of an MLP chunk
  const Element* weights = nullptr;  // flat order
  const Element* input = nullptr;
  Element* output = nullptr;
  Element* qk_raw = nullptr;
  Element* qkv = nullptr;
  Element* attention = nullptr;
  Real* lse = nullptr;
  Element* middle = nullptr;
  Element* gate_up = nullptr;
  bool gate_up_is_chunk = false;  // gate_up has rows of one chunk only
  Element* normed = nullptr;
  Element* product = nullptr;
  Element* d_product = nullptr;
  Element* d_gate_up = nullptr;
  Element* d_normed = nullptr;
  Element* d_attention = nullptr;
  Element* d_qkv = nullptr;
  const Element* output_gradient = nullptr;
  Element* input_gradient = nullptr;
  GradientSink<Real>* gradient = nullptr;
};

/// What a forward or recompute op makes; what it does not make it finds where an earlier op left it.
struct DecoderProducts {
  bool qkv = true;        // and qk_raw
  bool attention = true;  // and lse
  bool middle = true;
  bool gate_up = true;
  bool output = true;
};

template <class Storage>
void decoder_forward(const Model& model, BatchShape batch, const DecoderProducts& makes,
                     const DecoderOperands<Storage>& op);

/// gate_up is made again chunk by chunk if `gate_up_is_chunk`.
template <class Storage>
void decoder_backward(const Model& model, BatchShape batch, const DecoderOperands<Storage>& op);

}  // namespace penstock::exec
