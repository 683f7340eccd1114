// ZeRO-2 Offload of DeepSpeed on one GPU: the bf16 weights stay in HBM and are written back once per step (2 B/param);
// gradients add up in bf16 on the GPU and leave as fp32 at the accumulation boundary (4 B/param); then, serially on the
// CPU: overflow scan (4 B/param), norm, scaling (8 B/param), Adam, and the cast of the fp32 master (4 B/param beyond
// the fused update's). Source: DeepSpeed's stage_1_and_2.py.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset zero2_offload_preset() {
  PolicyParameters p;
  p.name = "zero2-offload";
  p.group = 1;
  p.resident_weights = -1;
  p.burst = BurstKind::tensor;
  p.copy_lanes = CopyLanes::shared;
  p.keep = Keep::input;
  p.gradients = TierKind::dram;
  p.numerics.states = StateFormat::master_and_copy;
  p.numerics.gradient_sum = ElementType::bf16;
  p.numerics.gradient_link = ElementType::fp32;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::end;
  p.host_pass_bytes_per_parameter = 4 + 8 + 4;
  return {{p.name, "weights resident in HBM, states and serial optimizer on the CPU",
           "DeepSpeed ZeRO stage 2 with CPU offload", false, "deepspeed.toml"},
          p};
}

}  // namespace penstock
