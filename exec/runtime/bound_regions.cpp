#include "exec/runtime/bound_regions.h"

#include <stdexcept>
#include <string>

namespace penstock::exec {

BoundRegions::BoundRegions(const TemplateBinding& binding)
    : binding_(binding),
      kept_(kept_region(*binding.model, binding.kind, binding.batch, binding.layout)),
      workspace_(workspace_region(*binding.model, binding.kind, binding.pass, binding.batch, binding.layout)) {
  if (binding.pass == Pass::recompute || is_backward(binding.pass))
    recomputed_ = recomputed_region(*binding.model, binding.kind, binding.batch, binding.layout);
}

std::byte* BoundRegions::find(Activation activation) const {
  const auto in = [&](const Region& region, std::byte* memory) -> std::byte* {
    const Field* const field = region.find(activation);
    if (field == nullptr) return nullptr;
    if (memory == nullptr) throw std::logic_error("a template op is bound without a region that has fields");
    return memory + field->offset_bytes;
  };
  if (std::byte* place = in(kept_, binding_.get<TemplateOperand::kept>())) return place;
  if (std::byte* place = in(recomputed_, binding_.get<TemplateOperand::recomputed>())) return place;
  return in(workspace_, binding_.get<TemplateOperand::workspace>());
}

std::byte* BoundRegions::need(Activation activation) const {
  if (std::byte* place = find(activation)) return place;
  throw std::logic_error("no region of this op holds activation " + std::to_string(static_cast<int>(activation)));
}

std::int64_t BoundRegions::workspace_bytes(Activation activation) const {
  const Field* field = workspace_.find(activation);
  return field ? field->bytes : 0;
}

}  // namespace penstock::exec
