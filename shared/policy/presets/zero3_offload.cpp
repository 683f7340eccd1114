// ZeRO-3 Offload of DeepSpeed on one GPU: per module the host launches the copies of its parameters, one tensor each,
// on the one copy stream, and waits for them; checkpoints of every layer's input stay on the GPU. Each micro-batch's
// bf16 gradient leaves; with accumulation the old one comes back, is added on the GPU and leaves again; at the boundary
// fp32 leaves too (4 B/param). Then, serially on the CPU: overflow scan (4 B/param), norm, scaling (8 B/param), Adam,
// and a cast pass over the fp32 master (4 B/param beyond the 2 that our fused update writes). Sources: DeepSpeed's
// stage3.py, partitioned_param_coordinator.py; defaults: sub-groups of 1e9 elements, prefetch bucket 5e7 (less than one
// layer of 7B, hence two buffers).
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset zero3_offload_preset() {
  PolicyParameters p;
  p.name = "zero3-offload";
  p.group = 1;
  p.weight_buffers = 2;
  p.burst = BurstKind::tensor;
  p.copy_lanes = CopyLanes::shared;
  p.keep = Keep::input;
  p.activations = TierKind::hbm;
  p.gradients = TierKind::dram;
  p.gradient_sums = TierKind::dram;
  p.numerics.states = StateFormat::master_and_copy;
  p.numerics.gradient_sum = ElementType::bf16;
  p.numerics.gradient_link = ElementType::fp32;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::end;
  p.host_waits = HostWaits::per_layer;
  p.host_pass_bytes_per_parameter = 4 + 8 + 4;
  return {{p.name, "a host wait per layer, gradients summed over the link, serial CPU optimizer",
           "DeepSpeed ZeRO stage 3 with CPU offload", false, "deepspeed.toml"},
          p};
}

}  // namespace penstock
