// ml_dataflow: everything bf16 (8 B/param), layer-major over the rounds of a step, activations (input, attention
// context and its projection) on the host, states streamed through the GPU layer by layer after backward; no clipping.
// Its chunks of 16 384 tokens are our micro-batches: choose micro_batch so.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset ml_dataflow_preset() {
  PolicyParameters p;
  p.name = "ml-dataflow";
  p.group = 0;
  p.weight_buffers = 2;
  p.keep = Keep::input_attention;
  p.activations = TierKind::dram;
  p.gradients = TierKind::dram;
  p.numerics.states = StateFormat::bf16;
  p.numerics.moments = ElementType::bf16;
  p.numerics.gradient_sum = ElementType::bf16;
  p.numerics.gradient_link = ElementType::bf16;
  p.numerics.clip = false;
  p.optimizer_place = OptimizerPlace::gpu;
  p.optimizer_time = OptimizerTime::next_forward;
  return {{p.name, "layer-major, all bf16, states streamed through a GPU optimizer", "ml_dataflow, public code"}, p};
}

}  // namespace penstock
