// FSDP2 (fully_shard) with CPUOffloadPolicy on one GPU: the copies of a layer's parameters run in line with compute, so
// nothing is prefetched; gradients leave in fp32; with accumulation they are added on the host; norm, clip (8 B/param)
// and the fused Adam run serially on the CPU. fp32 parameters, gradients and moments: 16 B/param. fp32 shards cross the
// link (4 B/param) and are cast on the GPU; here it is a bf16 copy, and scenarios/software/fsdp2.toml doubles its time.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset fsdp2_offload_preset() {
  PolicyParameters p;
  p.name = "fsdp2-offload";
  p.group = 1;
  p.weight_buffers = 2;
  p.burst = BurstKind::tensor;
  p.copy_lanes = CopyLanes::per_direction;
  p.keep = Keep::input;
  p.activations = TierKind::hbm;
  p.gradients = TierKind::dram;
  p.numerics.states = StateFormat::master_and_copy;
  p.numerics.gradient_sum = ElementType::fp32;
  p.numerics.gradient_link = ElementType::fp32;
  p.numerics.sum_on_host = true;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::end;
  p.host_waits = HostWaits::on_compute;
  p.host_pass_bytes_per_parameter = 8;
  return {{p.name, "loads in line with compute, fp32 gradients, serial CPU optimizer",
           "PyTorch FSDP2 with CPUOffloadPolicy", false, "fsdp2.toml"},
          p};
}

}  // namespace penstock
