// Where the tensors of one template op lie, whatever they are stored as: what run_template_host makes of a
// TemplateBinding, and tests of arrays of doubles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "exec/host/gradient_sink.h"
#include "exec/host/kernel_clock.h"
#include "shared/ir/values.h"
#include "shared/model/activations.h"

namespace penstock::exec {

template <class Storage>
class OpMemory {
 public:
  using Element = typename Storage::Element;
  using Real = typename Storage::Real;

  /// nullptr where the op has no such tensor.
  template <class T = Element>
  T* at(TemplateOperand operand) const {
    return static_cast<T*>(operands_[static_cast<std::size_t>(operand)]);
  }
  template <class T = Element>
  T* at(Activation activation) const {
    return static_cast<T*>(activations_[static_cast<std::size_t>(activation)]);
  }
  /// What the op only reads may be const.
  void set(TemplateOperand operand, const void* place) {
    operands_[static_cast<std::size_t>(operand)] = const_cast<void*>(place);
  }
  void set(Activation activation, const void* place) {
    activations_[static_cast<std::size_t>(activation)] = const_cast<void*>(place);
  }

  LayerKind kind = LayerKind::decoder;  // of a decoder layer
  std::int64_t chunk_rows = 0;          // tokens of a chunk of the MLP, or of the logits
  bool gate_up_is_chunk = false;        // gate_up has rows of one chunk only
  std::int64_t window = 0;              // of attention, as Layer::window
  bool adds_keys = false;               // the gradient of keys and values is added to
  double loss_scale = 1.0;
  double balance_share = 1.0;              // as TemplateBinding's
  GradientSink<Real>* gradient = nullptr;  // nullptr: the pass makes no gradients of weights
  KernelClock* clock = nullptr;            // nullptr: nobody listens

 private:
  std::array<void*, kTemplateOperands.size()> operands_{};
  std::array<void*, kActivations> activations_{};
};

}  // namespace penstock::exec
