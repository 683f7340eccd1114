// A decoder layer: attention block, gated MLP, and their backward pass.
//
//   n      = rmsnorm(input)                        middle = input + attention Wo^T
//   qkv    = n Wqkv^T (+ bias)                     n2     = rmsnorm(middle)
//   qkv    = rotary(qk_norm(qkv)) on q and k       gate_up = n2 Wgu^T       (chunks of tokens from here)
//   attention, lse = causal attention(qkv)         output = middle + (silu(gate) up) Wd^T
//
// Of LayerKind::experts the MLP is exec/host/experts.h's.
#pragma once

#include "exec/host/op_memory.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// What a forward or recompute op makes; what it does not make it finds where an earlier op left it.
struct DecoderProducts {
  bool qkv = true;        // and qk_raw
  bool kv = false;        // of a chunk, for those behind it
  bool attention = true;  // and lse
  bool middle = true;
  bool gate_up = true;
  bool output = true;
};

template <class Storage>
void decoder_forward(const Model& model, BatchShape batch, const DecoderProducts& makes, const OpMemory<Storage>& op);

/// gate_up is made again chunk by chunk if `gate_up_is_chunk`.
template <class Storage>
void decoder_backward(const Model& model, BatchShape batch, const OpMemory<Storage>& op);

}  // namespace penstock::exec
