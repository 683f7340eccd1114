#include "shared/ir/check_passes.h"

namespace penstock {

std::int64_t value_bytes(const Schedule& schedule, const Model& model, const Value& value, Keep keep) {
  const Numerics& numerics = schedule.numerics;
  const BatchShape batch = schedule.micro_batch;
  switch (value.tensor) {
    case TensorKind::step_scalars: return 64;  // exec/optimizer/adamw.h
    case TensorKind::tokens: return batch.sequences * schedule.micro_batches * (batch.sequence_length + 1) * 4;
    case TensorKind::workspace: return -1;
    default: break;
  }
  if (value.layer < 0 || value.layer >= model.layer_count()) return -1;
  const Layer& layer = model.layers[static_cast<std::size_t>(value.layer)];
  switch (value.tensor) {
    case TensorKind::weights:
    case TensorKind::low_bits: return layer.state_elements * 2;
    case TensorKind::master: return layer.state_elements * 4;
    case TensorKind::moment_m:
    case TensorKind::moment_v: return layer.state_elements * element_bytes(numerics.moments);
    case TensorKind::gradient_sum: return layer.gradient_elements * element_bytes(numerics.gradient_sum);
    case TensorKind::gradient_part: return layer.gradient_elements * element_bytes(numerics.gradient_link);
    case TensorKind::gradient: return layer.state_elements * element_bytes(numerics.gradient_link);
    case TensorKind::norm_partial: return 8;
    case TensorKind::boundary:
    case TensorKind::boundary_gradient: return boundary_bytes(model, batch);
    case TensorKind::kept: return kept_region(model, layer.kind, batch, schedule.layout(keep)).bytes;
    case TensorKind::recomputed: return recomputed_region(model, layer.kind, batch, schedule.layout(keep)).bytes;
    case TensorKind::loss: return 8 * (value.micro_batch < 0 ? std::int64_t{schedule.micro_batches} : 1);
    default: return -1;
  }
}

}  // namespace penstock
