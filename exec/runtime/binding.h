// A template op bound to memory: a pointer table, never a memcpy. Both backends' templates take one of these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/ir/schedule.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Pointers are in the backend's memory (host or device); nullptr where the pass has no such operand.
///
/// Aliasing: `output` may be `input`, and `input_gradient` may be `output_gradient`; a template reads the aliased
/// operand for the last time before it writes. Nothing else overlaps.
///
/// Operands by pass (r = read, w = written, a = added to if `accumulates`, else overwritten):
///   embedding forward   tokens r, weights r, output w
///   embedding backward  tokens r, output_gradient r, gradient a
///   decoder forward     weights r, input r, kept w, workspace, output w
///   decoder recompute   weights r, input r, kept r, recomputed w, workspace, output w if not nullptr
///   decoder backward    weights r, input r, kept r, recomputed r, output_gradient r, workspace,
///                       input_gradient w, gradient a
///   head loss           weights r, tied_weights r if tied, tokens r, input r, workspace, input_gradient w,
///                       gradient a, loss w
struct TemplateBinding {
  const Model* model = nullptr;
  LayerKind kind = LayerKind::decoder;
  Pass pass = Pass::forward;
  BatchShape batch;
  LayoutOptions layout;                         // which regions hold what, see shared/model/activations.h
  const std::uint16_t* weights = nullptr;       // bf16, this layer's flat order
  const std::uint16_t* tied_weights = nullptr;  // bf16, layer 0's flat order; the output projection of a tied model
  const std::int32_t* tokens = nullptr;         // [sequences, sequence_length + 1]; targets are inputs shifted by one
  const std::uint16_t* input = nullptr;         // bf16 [tokens, hidden]
  std::uint16_t* output = nullptr;
  std::byte* kept = nullptr;
  std::byte* recomputed = nullptr;
  std::byte* workspace = nullptr;
  const std::uint16_t* output_gradient = nullptr;
  std::uint16_t* input_gradient = nullptr;
  void* gradient = nullptr;  // gradient_elements of the layer, of `gradient_type`
  ElementType gradient_type = ElementType::fp32;
  bool accumulates = false;
  double* loss = nullptr;   // [1] sum over the micro-batch of token losses (natural log), not averaged
  double loss_scale = 1.0;  // factor of every gradient: 1 / tokens of the whole step
};

}  // namespace penstock::exec
