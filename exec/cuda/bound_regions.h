// Finds each activation of a bound op, wherever the layout put it, and the gradient's parts.
#pragma once

#include <cstdint>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels.h"
#include "exec/runtime/binding.h"

namespace penstock::exec {

class BoundRegions {
 public:
  explicit BoundRegions(const TemplateBinding& binding);

  /// Throws std::logic_error naming the activation if no region of this pass has it.
  std::uint16_t* bf16(Activation activation) const { return reinterpret_cast<std::uint16_t*>(find(activation)); }
  float* fp32(Activation activation) const { return reinterpret_cast<float*>(find(activation)); }
  std::int32_t* int32(Activation activation) const { return reinterpret_cast<std::int32_t*>(find(activation)); }
  /// Null and 0 where the layout gives the libraries nothing.
  LibraryWorkspace library() const;

  bool in_kept(Activation activation) const { return kept_.find(activation) != nullptr; }
  bool in_recomputed(Activation activation) const { return recomputed_.find(activation) != nullptr; }
  bool in_workspace(Activation activation) const { return workspace_.find(activation) != nullptr; }
  std::int64_t workspace_bytes(Activation activation) const;

 private:
  std::byte* find(Activation activation) const;

  const TemplateBinding& binding_;
  Region kept_, recomputed_, workspace_;
};

/// The part of the binding's gradient that starts at `offset` elements.
GradientTarget gradient_at(const TemplateBinding& binding, std::int64_t offset);

/// Where the gradient is overwritten, the padding between its groups must become zero.
void clear_gradient_padding(const TemplateBinding& binding, Stream stream);

/// Throws std::logic_error with the operand's name if it is nullptr.
void require_operand(const void* operand, const char* name);

}  // namespace penstock::exec
