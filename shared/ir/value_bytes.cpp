#include "shared/ir/check_parts.h"

namespace penstock {
namespace {

std::int64_t bytes_of_element(const Numerics& numerics, ElementKind element) {
  switch (element) {
    case ElementKind::byte: return 1;
    case ElementKind::bf16:
    case ElementKind::u16: return 2;
    case ElementKind::fp32:
    case ElementKind::int32: return 4;
    case ElementKind::fp64: return 8;
    case ElementKind::scalars: return 64;
    case ElementKind::moment: return element_bytes(numerics.moments);
    case ElementKind::gradient_sum: return element_bytes(numerics.gradient_sum);
    case ElementKind::gradient_link: return element_bytes(numerics.gradient_link);
  }
  return 0;
}

}  // namespace

std::int64_t value_bytes(const Schedule& schedule, const Model& model, const Value& value, Keep keep) {
  const TensorFacts& of_tensor = facts(value.tensor);
  const BatchShape batch = value.micro_batch < 0 ? schedule.micro_batch : schedule.shape_of(value.micro_batch);
  const bool packed = batch.kind == BatchKind::packed;
  const bool has_layer = value.layer >= 0 && value.layer < model.layer_count();
  if (of_tensor.extent == Extent::none || (!is_of_step(value.tensor) && !has_layer)) return -1;
  const Layer& layer = model.layers[has_layer ? static_cast<std::size_t>(value.layer) : 0];
  const auto elements = [&]() -> std::int64_t {
    switch (of_tensor.extent) {
      case Extent::states: return layer.state_elements;
      case Extent::gradients: return layer.gradient_elements;
      case Extent::boundary: return boundary_bytes(model, batch) / 2;
      case Extent::step_tokens: return schedule.whole_step().sequences * schedule.micro_batch.token_row();
      case Extent::step_places: return packed ? schedule.tokens_per_step() : 0;
      case Extent::step_count: return packed ? 1 : 0;
      case Extent::micro_batches:
        return loss_numbers(model.config) * (value.micro_batch < 0 ? schedule.micro_batches : 1);
      case Extent::one: return 1;
      case Extent::kept_region: return kept_region(model, layer.kind, batch, schedule.layout(keep)).bytes;
      case Extent::recomputed_region: return recomputed_region(model, layer.kind, batch, schedule.layout(keep)).bytes;
      case Extent::keys_and_values: return batch.is_cut() ? kv_elements(model, batch.tokens()) : 0;
      case Extent::none: break;
    }
    return 0;
  };
  return elements() * bytes_of_element(schedule.numerics, of_tensor.element);
}

}  // namespace penstock
