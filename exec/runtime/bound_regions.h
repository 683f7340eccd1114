// Finds each activation of a bound op, wherever the layout put it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/runtime/binding.h"

namespace penstock::exec {

/// What is saved lies in `kept`, `recomputed` or, for one op only, in `workspace`. The binding must outlive it.
class BoundRegions {
 public:
  explicit BoundRegions(const TemplateBinding& binding);

  /// nullptr if no region of this pass has it. Throws std::logic_error if one has it, but is bound to no memory.
  std::byte* find(Activation activation) const;
  /// Throws std::logic_error naming the activation if no region of this pass has it.
  template <class T>
  T* at(Activation activation) const {
    return reinterpret_cast<T*>(need(activation));
  }

  bool in_kept(Activation activation) const { return kept_.find(activation) != nullptr; }
  bool in_recomputed(Activation activation) const { return recomputed_.find(activation) != nullptr; }
  bool in_workspace(Activation activation) const { return workspace_.find(activation) != nullptr; }
  /// 0 if it does not lie there.
  std::int64_t workspace_bytes(Activation activation) const;

 private:
  std::byte* need(Activation activation) const;

  const TemplateBinding& binding_;
  Region kept_, recomputed_, workspace_;
};

}  // namespace penstock::exec
