// ml_dataflow (github als244/ml_dataflow, commit d6f941d): a round is forward and backward of one chunk of tokens,
// rounds follow each other, and gradient sums come and go in every round. All bf16: weights, gradients, moments (8
// B/param). Embedding and head stay on the GPU with all that is theirs. AdamW on the GPU behind the last round, layer
// by layer, through the space of activations; no clipping. A layer leaves its input and what attention made; the output
// projection is made again (and q; k and v, which that program keeps, too). Its chunks (16 384 tokens, 8192 on consumer
// cards) are our micro-batches: choose micro_batch so.
//
// What its planner chooses from the memory that it is given is for the scenario to say: weight_buffers (its device
// blocks), gradient_slots (its gradient blocks), and in keep_layers what each layer leaves and which of the last layers
// stay on the GPU. A sequence that is longer than a chunk is one micro-batch here unless the scenario has chunk_tokens.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset ml_dataflow_preset() {
  PolicyParameters p;
  p.name = "ml-dataflow";
  p.group = 1;
  p.weight_buffers = 2;
  p.resident_edges = true;
  p.keep = Keep::input_context;
  p.activations = TierKind::dram;
  p.gradients = TierKind::dram;
  p.gradient_sums = TierKind::dram;
  p.numerics.states = StateFormat::bf16;
  p.numerics.moments = ElementType::bf16;
  p.numerics.gradient_sum = ElementType::bf16;
  p.numerics.gradient_link = ElementType::bf16;
  p.numerics.clip = false;
  p.optimizer_place = OptimizerPlace::gpu;
  p.optimizer_time = OptimizerTime::end;
  return {{p.name, "round by round, all bf16, states streamed through a GPU optimizer", "ml_dataflow, public code"}, p};
}

}  // namespace penstock
