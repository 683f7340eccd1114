// MegaTrain as its paper describes it: two layer-sized weight buffers, one copy per layer; layer inputs kept every
// 4th layer, recompute by blocks; gradients leave through a ring of 12 slabs to a host worker that accumulates them;
// the optimizer on the CPU after backward. bf16 weights without an fp32 master, bf16 gradients, fp32 moments: 12
// B/param.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset megatrain_preset() {
  PolicyParameters p;
  p.name = "megatrain";
  p.group = 1;
  p.weight_buffers = 2;
  p.burst = BurstKind::layer;
  p.copy_lanes = CopyLanes::per_direction;
  p.keep = Keep::input;
  p.checkpoint_every = 4;
  p.activations = TierKind::hbm;
  p.gradients = TierKind::dram;
  p.gradient_slots = 12;
  p.numerics.states = StateFormat::bf16;
  p.numerics.gradient_sum = ElementType::bf16;
  p.numerics.gradient_link = ElementType::bf16;
  p.numerics.sum_on_host = true;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::end;
  return {{p.name, "double-buffered weights, blocks of 4 layers recomputed, serial CPU optimizer",
           "MegaTrain, the paper", false, "megatrain.toml"},
          p};
}

}  // namespace penstock
