// A template op bound to memory: a pointer table, never a memcpy. Both backends' templates take one of these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shared/ir/schedule.h"
#include "shared/ir/values.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

namespace binding_h {
template <ElementKind kind>
struct TypeOf {
  using Type = std::byte;
};
template <>
struct TypeOf<ElementKind::bf16> {
  using Type = std::uint16_t;
};
template <>
struct TypeOf<ElementKind::fp64> {
  using Type = double;
};
template <>
struct TypeOf<ElementKind::int32> {
  using Type = std::int32_t;
};
template <>
struct TypeOf<ElementKind::gradient_sum> {
  using Type = void;  // TemplateBinding::gradient_type
};
}  // namespace binding_h

/// What an operand's elements are in memory.
template <TemplateOperand operand>
using OperandType = typename binding_h::TypeOf<facts(facts(operand).tensor).element>::Type;

/// Pointers are in the backend's memory (host or device). Which operands a pass has, and what it does with them, is
/// shared/ir/values.h's.
///
/// Aliasing: `output` may be `input`, and `input_gradient` may be `output_gradient`; a template reads the aliased
/// operand for the last time before it writes. Nothing else overlaps. Of a chunk `kv` and `kv_gradient` begin with those
/// of its sequence's first one, `tokens` and `labels` with the chunk's own, and `document_starts` are its whole row's.
struct TemplateBinding {
  const Model* model = nullptr;
  LayerKind kind = LayerKind::decoder;
  Pass pass = Pass::forward;
  BatchShape batch;
  LayoutOptions layout;  // which regions hold what, see shared/model/activations.h
  ElementType gradient_type = ElementType::fp32;
  std::int64_t window = 0;   // of attention, as Layer::window
  bool accumulates = false;  // `gradient` is added to, else overwritten
  bool adds_keys = false;    // `kv_gradient` is added to, else overwritten
  double loss_scale = 1.0;   // factor of every gradient in windows: 1 / tokens of the whole step. Of packed rows it is
                             // 1 / `trained_tokens`, which the op reads
  double balance_share = 1.0;  // of the load-balancing loss in the step's: 1 / micro-batches

  /// nullptr where the pass has no such operand.
  template <TemplateOperand operand>
  OperandType<operand>* get() const {
    return static_cast<OperandType<operand>*>(places_[static_cast<std::size_t>(operand)]);
  }
  /// What a template only reads may be const.
  void set(TemplateOperand operand, const void* place) {
    places_[static_cast<std::size_t>(operand)] = const_cast<void*>(place);
  }
  const void* place(TemplateOperand operand) const { return places_[static_cast<std::size_t>(operand)]; }

  /// The layer that stands for all of its kind: they have one flat order.
  const Layer& layer() const;
  /// Bytes of an operand of this binding; 0: it has none.
  std::int64_t bytes(TemplateOperand operand) const;

  /// Throws std::logic_error naming the operand that the pass needs and does not have, or the pass that the kind does
  /// not have.
  void require_operands() const;

 private:
  std::array<void*, kTemplateOperands.size()> places_{};
};

}  // namespace penstock::exec
