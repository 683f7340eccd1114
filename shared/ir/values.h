// What the values of a step are, and which of them each pass of each template is handed.
//
// The one place for both: names and sizes of values, the checker's table of operands, what the generator hands to an
// op, what the binder looks for and what a backend finds in a TemplateBinding all come from the tables below. A new
// operand is an enumerator, its line and its uses here; where it comes from is the generator's
// (shared/policy/generator.cpp), unless it is a value that the op has at hand already.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

// --- values -------------------------------------------------------------------------------------------------------

/// What a value is. Element types in brackets; N = state_elements of the layer, G = gradient_elements.
enum class TensorKind {
  weights,            // [bf16 N] what the GPU computes with: plane hi, or the bf16 copy
  low_bits,           // [u16 N] plane lo (states = planes)
  master,             // [fp32 N] (states = master_and_copy)
  moment_m,           // [Numerics::moments N]
  moment_v,           // [Numerics::moments N]
  gradient_sum,       // [Numerics::gradient_sum G] sum of contributions up to and with its micro-batch
  gradient_part,      // [Numerics::gradient_link G] contribution of one micro-batch, on its way to a host sum
  gradient,           // [Numerics::gradient_link N] finished and rounded: what norm and optimizer read
  norm_partial,       // [fp64 1] sum of squares of one layer's `gradient`
  step_scalars,       // [StepScalars, exec/optimizer/step_scalars.h, 64 bytes] clip scale, learning rate, bias
                      // corrections, skip flag
  tokens,             // [int32 sequences x BatchShape::token_row] whole step; of windows inputs and, shifted by one,
                      // targets
  boundary,           // [bf16 tokens x hidden, and what balances experts (balances() of
                      // shared/model/activations.h)] input of `layer` for one micro-batch
  boundary_gradient,  // [likewise] gradient with respect to that input
  kept,               // kept_region of `layer`, one micro-batch
  recomputed,         // recomputed_region of `layer`, one micro-batch
  loss,       // [fp64 loss_numbers] sum of token losses of one micro-batch (and the load-balancing loss); micro_batch
              // -1: [fp64 micro-batches x loss_numbers], all of them
  workspace,  // garbage before and after; its label is never compared
  // Of packed rows, whole step; windows have none of them. Behind the others, for hashes count the enumerators.
  labels,           // [int32 sequences x sequence_length] what a place is to predict, or kIgnoredLabel
                    // (shared/ignored_label.h)
  document_starts,  // [int32 sequences x sequence_length] the place in the row where the place's document begins: its
                    // position is the distance from there
  trained_tokens,   // [fp64 1] how many labels of the step count: what the loss is divided by
  // Of sequences that are cut, by layer and chunk.
  kv,  // [bf16 tokens x 2 key_columns] keys and values of the chunk (kv_elements of shared/model/activations.h)
  kv_gradient,  // [fp32 likewise] sum of what the queries of later chunks, and then its own, contribute to their gradient
};

/// How many elements a value has.
enum class Extent {
  states,         // Layer::state_elements
  gradients,      // Layer::gradient_elements
  boundary,       // boundary_bytes / 2 of a micro-batch
  step_tokens,    // sequences of the step x BatchShape::token_row
  step_places,    // sequences of the step x sequence_length; 0 in windows
  step_count,     // 1; 0 in windows
  micro_batches,  // loss_numbers, or so many for each micro-batch of the step
  one,
  kept_region,
  recomputed_region,  // bytes of a region of shared/model/activations.h
  none,               // no size of its own
  keys_and_values,    // kv_elements of the tokens of a micro-batch
};
/// What an element is; the last three as the schedule's Numerics say.
enum class ElementKind { byte, bf16, u16, fp32, fp64, int32, scalars, moment, gradient_sum, gradient_link };

struct TensorFacts {
  TensorKind tensor;
  std::string_view name;  // in schedule files and in messages
  Extent extent;
  ElementKind element;
};

/// In the order of the enumerators.
inline constexpr std::array kTensors{
    TensorFacts{TensorKind::weights, "weights", Extent::states, ElementKind::bf16},
    TensorFacts{TensorKind::low_bits, "low_bits", Extent::states, ElementKind::u16},
    TensorFacts{TensorKind::master, "master", Extent::states, ElementKind::fp32},
    TensorFacts{TensorKind::moment_m, "moment_m", Extent::states, ElementKind::moment},
    TensorFacts{TensorKind::moment_v, "moment_v", Extent::states, ElementKind::moment},
    TensorFacts{TensorKind::gradient_sum, "gradient_sum", Extent::gradients, ElementKind::gradient_sum},
    TensorFacts{TensorKind::gradient_part, "gradient_part", Extent::gradients, ElementKind::gradient_link},
    TensorFacts{TensorKind::gradient, "gradient", Extent::states, ElementKind::gradient_link},
    TensorFacts{TensorKind::norm_partial, "norm_partial", Extent::one, ElementKind::fp64},
    TensorFacts{TensorKind::step_scalars, "step_scalars", Extent::one, ElementKind::scalars},
    TensorFacts{TensorKind::tokens, "tokens", Extent::step_tokens, ElementKind::int32},
    TensorFacts{TensorKind::boundary, "boundary", Extent::boundary, ElementKind::bf16},
    TensorFacts{TensorKind::boundary_gradient, "boundary_gradient", Extent::boundary, ElementKind::bf16},
    TensorFacts{TensorKind::kept, "kept", Extent::kept_region, ElementKind::byte},
    TensorFacts{TensorKind::recomputed, "recomputed", Extent::recomputed_region, ElementKind::byte},
    TensorFacts{TensorKind::loss, "loss", Extent::micro_batches, ElementKind::fp64},
    TensorFacts{TensorKind::workspace, "workspace", Extent::none, ElementKind::byte},
    TensorFacts{TensorKind::labels, "labels", Extent::step_places, ElementKind::int32},
    TensorFacts{TensorKind::document_starts, "document_starts", Extent::step_places, ElementKind::int32},
    TensorFacts{TensorKind::trained_tokens, "trained_tokens", Extent::step_count, ElementKind::fp64},
    TensorFacts{TensorKind::kv, "kv", Extent::keys_and_values, ElementKind::bf16},
    TensorFacts{TensorKind::kv_gradient, "kv_gradient", Extent::keys_and_values, ElementKind::fp32},
};

constexpr const TensorFacts& facts(TensorKind tensor) { return kTensors[static_cast<std::size_t>(tensor)]; }

/// Of the whole step rather than of a layer.
constexpr bool is_of_step(TensorKind tensor) {
  return tensor == TensorKind::tokens || tensor == TensorKind::step_scalars || tensor == TensorKind::workspace ||
         tensor == TensorKind::labels || tensor == TensorKind::document_starts || tensor == TensorKind::trained_tokens;
}

/// What the input op writes, in its order; windows have the first alone.
inline constexpr std::array kInputTensors{TensorKind::tokens, TensorKind::labels, TensorKind::document_starts,
                                          TensorKind::trained_tokens};

// --- templates ----------------------------------------------------------------------------------------------------

/// What a template op is handed, by the part that it plays for the op's layer.
enum class TemplateOperand {
  weights,       // of the layer, its flat order
  tied_weights,  // layer 0's, the output projection of a tied model
  tokens,        // the micro-batch's rows; in windows targets are inputs shifted by one
  input,         // boundary in front of the layer
  output,        // boundary behind it; may be `input`
  kept,
  recomputed,
  output_gradient,  // of the boundary behind the layer
  input_gradient,   // of the boundary in front of it; may be `output_gradient`
  gradient,         // of the layer's weights: a gradient_sum, or a gradient_part where the host sums
  loss,  // sum over the micro-batch of token losses (natural log), not averaged; with loss_numbers 2, behind it
         // the load-balancing loss
  workspace,
  labels,  // the micro-batch's rows, as the next
  document_starts,
  trained_tokens,  // of the whole step
  kv,              // of the layer, from the first chunk of the micro-batch's sequence on, one behind the other
  kv_gradient,     // likewise
};

/// Which layer's value it is.
enum class OperandLayer { own, next, first, none };

struct TemplateOperandFacts {
  TemplateOperand operand;
  std::string_view name;  // in messages
  TensorKind tensor;
  OperandLayer layer;
};

/// In the order of the enumerators.
inline constexpr std::array kTemplateOperands{
    TemplateOperandFacts{TemplateOperand::weights, "weights", TensorKind::weights, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::tied_weights, "tied weights", TensorKind::weights, OperandLayer::first},
    TemplateOperandFacts{TemplateOperand::tokens, "tokens", TensorKind::tokens, OperandLayer::none},
    TemplateOperandFacts{TemplateOperand::input, "input", TensorKind::boundary, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::output, "output", TensorKind::boundary, OperandLayer::next},
    TemplateOperandFacts{TemplateOperand::kept, "kept activations", TensorKind::kept, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::recomputed, "recomputed activations", TensorKind::recomputed,
                         OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::output_gradient, "output gradient", TensorKind::boundary_gradient,
                         OperandLayer::next},
    TemplateOperandFacts{TemplateOperand::input_gradient, "input gradient", TensorKind::boundary_gradient,
                         OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::gradient, "gradient", TensorKind::gradient_sum, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::loss, "loss", TensorKind::loss, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::workspace, "workspace", TensorKind::workspace, OperandLayer::none},
    TemplateOperandFacts{TemplateOperand::labels, "labels", TensorKind::labels, OperandLayer::none},
    TemplateOperandFacts{TemplateOperand::document_starts, "document starts", TensorKind::document_starts,
                         OperandLayer::none},
    TemplateOperandFacts{TemplateOperand::trained_tokens, "trained tokens", TensorKind::trained_tokens,
                         OperandLayer::none},
    TemplateOperandFacts{TemplateOperand::kv, "keys and values", TensorKind::kv, OperandLayer::own},
    TemplateOperandFacts{TemplateOperand::kv_gradient, "gradient of keys and values", TensorKind::kv_gradient,
                         OperandLayer::own},
};

constexpr const TemplateOperandFacts& facts(TemplateOperand operand) {
  return kTemplateOperands[static_cast<std::size_t>(operand)];
}

enum class Use {
  reads,
  writes,
  may_write,  // where somebody wants it
  adds,       // added to if the op also reads it, else overwritten
  // Of the chunks of the op's sequence, a value each:
  reads_past,     // those before the op's
  reads_through,  // those up to the op's
  adds_through,   // likewise; the last chunk overwrites, every other one adds
};
/// Whether the operand is there only where sequences are cut.
constexpr bool is_of_chunks(TemplateOperand operand) {
  return operand == TemplateOperand::kv || operand == TemplateOperand::kv_gradient;
}
/// Whether a pass at that keep level runs attention or its backward, and so wants keys and values.
constexpr bool attends(Pass pass, Keep keep) { return pass != Pass::recompute || keep < Keep::input_context; }

struct OperandUse {
  LayerKind kind;
  Pass pass;
  TemplateOperand operand;
  Use use;
  std::optional<BatchKind> only = {};  // none: whatever the rows are
  bool of_balance = false;             // where the model asks for the load-balancing loss, which leaves padding out

  constexpr bool is_of(const BatchShape& rows, const ModelConfig& config) const {
    return (!only || *only == rows.kind) && (rows.is_cut() || !is_of_chunks(operand)) &&
           (!of_balance || balances(config));
  }
};

/// Uses of one pass stand together, in the order in which an op lists its reads and its writes. A region of no bytes
/// and the tied weights of an untied model are no operands. What stands for a decoder layer is of both its kinds.
inline constexpr OperandUse kOperandUses[] = {
    {LayerKind::embedding, Pass::forward, TemplateOperand::weights, Use::reads},
    {LayerKind::embedding, Pass::forward, TemplateOperand::tokens, Use::reads},
    {LayerKind::embedding, Pass::forward, TemplateOperand::output, Use::writes},
    {LayerKind::embedding, Pass::forward, TemplateOperand::workspace, Use::writes},

    {LayerKind::embedding, Pass::backward, TemplateOperand::tokens, Use::reads},
    {LayerKind::embedding, Pass::backward, TemplateOperand::output_gradient, Use::reads},
    {LayerKind::embedding, Pass::backward, TemplateOperand::gradient, Use::adds},
    {LayerKind::embedding, Pass::backward, TemplateOperand::workspace, Use::writes},

    {LayerKind::decoder, Pass::forward, TemplateOperand::weights, Use::reads},
    {LayerKind::decoder, Pass::forward, TemplateOperand::input, Use::reads},
    {LayerKind::decoder, Pass::forward, TemplateOperand::document_starts, Use::reads, BatchKind::packed},
    {LayerKind::decoder, Pass::forward, TemplateOperand::labels, Use::reads, BatchKind::packed, true},
    {LayerKind::decoder, Pass::forward, TemplateOperand::kv, Use::reads_past},
    {LayerKind::decoder, Pass::forward, TemplateOperand::output, Use::writes},
    {LayerKind::decoder, Pass::forward, TemplateOperand::kv, Use::writes},
    {LayerKind::decoder, Pass::forward, TemplateOperand::kept, Use::writes},
    {LayerKind::decoder, Pass::forward, TemplateOperand::workspace, Use::writes},

    {LayerKind::decoder, Pass::recompute, TemplateOperand::weights, Use::reads},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::input, Use::reads},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::kept, Use::reads},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::document_starts, Use::reads, BatchKind::packed},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::labels, Use::reads, BatchKind::packed, true},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::kv, Use::reads_through},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::recomputed, Use::writes},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::output, Use::may_write},
    {LayerKind::decoder, Pass::recompute, TemplateOperand::workspace, Use::writes},

    {LayerKind::decoder, Pass::backward, TemplateOperand::weights, Use::reads},
    {LayerKind::decoder, Pass::backward, TemplateOperand::input, Use::reads},
    {LayerKind::decoder, Pass::backward, TemplateOperand::kept, Use::reads},
    {LayerKind::decoder, Pass::backward, TemplateOperand::recomputed, Use::reads},
    {LayerKind::decoder, Pass::backward, TemplateOperand::output_gradient, Use::reads},
    {LayerKind::decoder, Pass::backward, TemplateOperand::document_starts, Use::reads, BatchKind::packed},
    {LayerKind::decoder, Pass::backward, TemplateOperand::labels, Use::reads, BatchKind::packed, true},
    {LayerKind::decoder, Pass::backward, TemplateOperand::kv, Use::reads_through},
    {LayerKind::decoder, Pass::backward, TemplateOperand::input_gradient, Use::writes},
    {LayerKind::decoder, Pass::backward, TemplateOperand::kv_gradient, Use::adds_through},
    {LayerKind::decoder, Pass::backward, TemplateOperand::gradient, Use::adds},
    {LayerKind::decoder, Pass::backward, TemplateOperand::workspace, Use::writes},

    {LayerKind::decoder, Pass::input_backward, TemplateOperand::weights, Use::reads},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::input, Use::reads},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::kept, Use::reads},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::recomputed, Use::reads},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::output_gradient, Use::reads},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::document_starts, Use::reads, BatchKind::packed},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::labels, Use::reads, BatchKind::packed, true},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::kv, Use::reads_through},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::input_gradient, Use::writes},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::kv_gradient, Use::adds_through},
    {LayerKind::decoder, Pass::input_backward, TemplateOperand::workspace, Use::writes},

    {LayerKind::head, Pass::loss, TemplateOperand::weights, Use::reads},
    {LayerKind::head, Pass::loss, TemplateOperand::tied_weights, Use::reads},
    {LayerKind::head, Pass::loss, TemplateOperand::tokens, Use::reads, BatchKind::windows},
    {LayerKind::head, Pass::loss, TemplateOperand::labels, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::loss, TemplateOperand::trained_tokens, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::loss, TemplateOperand::input, Use::reads},
    {LayerKind::head, Pass::loss, TemplateOperand::input_gradient, Use::writes},
    {LayerKind::head, Pass::loss, TemplateOperand::gradient, Use::adds},
    {LayerKind::head, Pass::loss, TemplateOperand::loss, Use::writes},
    {LayerKind::head, Pass::loss, TemplateOperand::workspace, Use::writes},

    {LayerKind::head, Pass::input_loss, TemplateOperand::weights, Use::reads},
    {LayerKind::head, Pass::input_loss, TemplateOperand::tied_weights, Use::reads},
    {LayerKind::head, Pass::input_loss, TemplateOperand::tokens, Use::reads, BatchKind::windows},
    {LayerKind::head, Pass::input_loss, TemplateOperand::labels, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::input_loss, TemplateOperand::trained_tokens, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::input_loss, TemplateOperand::input, Use::reads},
    {LayerKind::head, Pass::input_loss, TemplateOperand::input_gradient, Use::writes},
    {LayerKind::head, Pass::input_loss, TemplateOperand::loss, Use::writes},
    {LayerKind::head, Pass::input_loss, TemplateOperand::workspace, Use::writes},

    {LayerKind::head, Pass::evaluate, TemplateOperand::weights, Use::reads},
    {LayerKind::head, Pass::evaluate, TemplateOperand::tied_weights, Use::reads},
    {LayerKind::head, Pass::evaluate, TemplateOperand::tokens, Use::reads, BatchKind::windows},
    {LayerKind::head, Pass::evaluate, TemplateOperand::labels, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::evaluate, TemplateOperand::trained_tokens, Use::reads, BatchKind::packed},
    {LayerKind::head, Pass::evaluate, TemplateOperand::input, Use::reads},
    {LayerKind::head, Pass::evaluate, TemplateOperand::loss, Use::writes},
    {LayerKind::head, Pass::evaluate, TemplateOperand::workspace, Use::writes},
};

/// Empty if the kind has no such pass.
constexpr std::span<const OperandUse> operand_uses(LayerKind kind, Pass pass) {
  const std::span<const OperandUse> all(kOperandUses);
  if (is_decoder(kind)) kind = LayerKind::decoder;
  std::size_t first = 0;
  while (first < all.size() && (all[first].kind != kind || all[first].pass != pass)) ++first;
  std::size_t last = first;
  while (last < all.size() && all[last].kind == kind && all[last].pass == pass) ++last;
  return all.subspan(first, last - first);
}

namespace values_h {
template <class Table, class Key>
constexpr bool in_order(const Table& table, Key key) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].*key) != i) return false;
  return true;
}
static_assert(kTensors.size() == static_cast<std::size_t>(TensorKind::kv_gradient) + 1);
static_assert(in_order(kTensors, &TensorFacts::tensor));
static_assert(kTemplateOperands.size() == static_cast<std::size_t>(TemplateOperand::kv_gradient) + 1);
static_assert(in_order(kTemplateOperands, &TemplateOperandFacts::operand));
}  // namespace values_h

}  // namespace penstock
