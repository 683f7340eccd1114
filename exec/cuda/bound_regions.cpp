#include "exec/cuda/bound_regions.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/cuda/error.h"

namespace penstock::exec {
namespace {

const Layer& layer_of(const Model& model, LayerKind kind) {
  switch (kind) {
    case LayerKind::embedding: return model.layers.front();
    case LayerKind::head: return model.layers.back();
    case LayerKind::decoder: break;
  }
  return model.layers.at(1);
}

struct Span {
  std::int64_t begin, end;
};

/// What the gradients of the layer's tensors fill, in ascending order.
std::vector<Span> gradient_spans(const Model& model, LayerKind kind) {
  std::vector<Span> spans;
  for (const ParameterTensor& tensor : layer_of(model, kind).tensors)
    spans.push_back({tensor.offset, tensor.offset + tensor.elements()});
  if (kind == LayerKind::head && model.config.tied_embeddings)
    spans.push_back({model.head.projection, model.head.projection + model.config.vocabulary * model.config.hidden});
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

}  // namespace

BoundRegions::BoundRegions(const TemplateBinding& binding)
    : binding_(binding),
      kept_(kept_region(*binding.model, binding.kind, binding.batch, binding.layout)),
      workspace_(workspace_region(*binding.model, binding.kind, binding.pass, binding.batch, binding.layout)) {
  if (binding.pass == Pass::recompute || binding.pass == Pass::backward)
    recomputed_ = recomputed_region(*binding.model, binding.kind, binding.batch, binding.layout);
}

std::byte* BoundRegions::find(Activation activation) const {
  if (const Field* field = kept_.find(activation)) return binding_.kept + field->offset_bytes;
  if (const Field* field = recomputed_.find(activation)) return binding_.recomputed + field->offset_bytes;
  if (const Field* field = workspace_.find(activation)) return binding_.workspace + field->offset_bytes;
  throw std::logic_error("no region of this op holds activation " + std::to_string(static_cast<int>(activation)));
}

LibraryWorkspace BoundRegions::library() const {
  const Field* field = workspace_.find(Activation::library);
  return field ? LibraryWorkspace{binding_.workspace + field->offset_bytes, field->bytes} : LibraryWorkspace{};
}

std::int64_t BoundRegions::workspace_bytes(Activation activation) const {
  const Field* field = workspace_.find(activation);
  return field ? field->bytes : 0;
}

GradientTarget gradient_at(const TemplateBinding& binding, std::int64_t offset) {
  return GradientTarget{binding.gradient, binding.gradient_type, binding.accumulates}.at(offset);
}

void clear_gradient_padding(const TemplateBinding& binding, Stream stream) {
  if (binding.accumulates) return;
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    const auto bytes = static_cast<std::size_t>((end - begin) * element_bytes(binding.gradient_type));
    PENSTOCK_CUDA(cudaMemsetAsync(gradient_at(binding, begin).data, 0, bytes, stream));
  };
  std::int64_t position = 0;
  for (const Span& span : gradient_spans(*binding.model, binding.kind)) {
    clear(position, span.begin);
    position = span.end;
  }
  clear(position, layer_of(*binding.model, binding.kind).gradient_elements);
}

void require_operand(const void* operand, const char* name) {
  if (!operand) throw std::logic_error(std::string("a template op is bound without its ") + name);
}

}  // namespace penstock::exec
