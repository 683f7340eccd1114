#include "exec/runtime/binding.h"

#include <stdexcept>
#include <string>

namespace penstock::exec {

const Layer& TemplateBinding::layer() const { return model->first_of(kind); }

std::int64_t TemplateBinding::bytes(TemplateOperand operand) const {
  const TensorFacts& tensor = facts(facts(operand).tensor);
  if (operand == TemplateOperand::tied_weights)
    return model->config.tied_embeddings ? 2 * model->layers.front().state_elements : 0;
  if (operand == TemplateOperand::workspace) return workspace_region(*model, kind, pass, batch, layout).bytes;
  switch (tensor.extent) {
    case Extent::states: return 2 * layer().state_elements;
    case Extent::gradients: return layer().gradient_elements * element_bytes(gradient_type);
    case Extent::boundary: return boundary_bytes(*model, batch);
    case Extent::step_tokens: return 4 * batch.sequences * batch.token_row();
    case Extent::step_places:
      if (operand == TemplateOperand::document_starts && batch.is_cut() && batch.kind == BatchKind::packed)
        return 4 * (batch.past + batch.tokens());
      return batch.kind == BatchKind::packed ? 4 * batch.tokens() : 0;
    case Extent::step_count: return batch.kind == BatchKind::packed ? 8 : 0;
    case Extent::kept_region: return kept_region(*model, kind, batch, layout).bytes;
    case Extent::recomputed_region: return recomputed_region(*model, kind, batch, layout).bytes;
    case Extent::keys_and_values:
      return batch.is_cut()
                 ? kv_elements(*model, batch.past + batch.tokens()) * (tensor.element == ElementKind::fp32 ? 4 : 2)
                 : 0;
    case Extent::micro_batches: return 8 * loss_numbers(model->config);
    case Extent::one: return 8;
    case Extent::none: break;
  }
  return 0;
}

void TemplateBinding::require_operands() const {
  if (model == nullptr) throw std::logic_error("a template op is bound without its model");
  const std::span<const OperandUse> uses = operand_uses(kind, pass);
  if (uses.empty()) throw std::logic_error("a template op is bound to a pass that its layer kind does not have");
  for (const OperandUse& use : uses) {
    // A region of no bytes has no place.
    const bool region = use.operand == TemplateOperand::kept || use.operand == TemplateOperand::recomputed ||
                        use.operand == TemplateOperand::workspace;
    const bool absent = use.operand == TemplateOperand::tied_weights && !model->config.tied_embeddings;
    const bool unread = use.operand == TemplateOperand::kv && !attends(pass, layout.keep);
    if (!use.is_of(batch, model->config) || region || absent || unread || use.use == Use::may_write ||
        place(use.operand) != nullptr)
      continue;
    throw std::logic_error("a template op is bound without its " + std::string(facts(use.operand).name));
  }
}

}  // namespace penstock::exec
