#include "exec/cuda/gradient_memory.h"

#include <algorithm>
#include <vector>

#include "exec/cuda/error.h"

namespace penstock::exec {
namespace {

struct Span {
  std::int64_t begin, end;
};

/// What the gradients of the layer's tensors fill, in ascending order.
std::vector<Span> gradient_spans(const TemplateBinding& binding) {
  const Model& model = *binding.model;
  std::vector<Span> spans;
  for (const ParameterTensor& tensor : binding.layer().tensors)
    spans.push_back({tensor.offset, tensor.offset + tensor.elements()});
  if (binding.kind == LayerKind::head && model.config.tied_embeddings)
    spans.push_back({model.head.projection, model.head.projection + model.config.vocabulary * model.config.hidden});
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

}  // namespace

LibraryWorkspace library_workspace(const BoundRegions& regions) {
  if (!regions.in_workspace(Activation::library)) return {};
  return {regions.find(Activation::library), regions.workspace_bytes(Activation::library)};
}

GradientTarget gradient_at(const TemplateBinding& binding, std::int64_t offset) {
  if (binding.get<TemplateOperand::gradient>() == nullptr) return {};
  return GradientTarget{binding.get<TemplateOperand::gradient>(), binding.gradient_type, binding.accumulates}.at(
      offset);
}

void clear_gradient_padding(const TemplateBinding& binding, Stream stream) {
  if (binding.accumulates || binding.get<TemplateOperand::gradient>() == nullptr) return;
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    const auto bytes = static_cast<std::size_t>((end - begin) * element_bytes(binding.gradient_type));
    PENSTOCK_CUDA(cudaMemsetAsync(gradient_at(binding, begin).data, 0, bytes, stream));
  };
  std::int64_t position = 0;
  for (const Span& span : gradient_spans(binding)) {
    clear(position, span.begin);
    position = span.end;
  }
  clear(position, binding.layer().gradient_elements);
}

}  // namespace penstock::exec
