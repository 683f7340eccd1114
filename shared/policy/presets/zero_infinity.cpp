// ZeRO-Infinity of DeepSpeed on one GPU: ZeRO-3 with parameters and optimizer states on NVMe. Weights are read into
// pinned buffers (5 of 1e8 elements; here as many layers as the GPU has slots) and uploaded from there, for forward and
// for backward. Finished fp32 gradients are written to NVMe as they land; bf16 sums between micro-batches stay in DRAM.
// The optimizer goes through sub-groups (up to 1e9 elements; here a layer) in one set of pinned buffers of 4 x 4 B per
// element: read master, moments and gradient (16 B/param), scale, Adam, write master and moments (12), one after the
// other, since pipeline_read and pipeline_write are off by default; then the bf16 weights go back too (2). Sources:
// DeepSpeed's stage3.py, partitioned_param_swapper.py, partitioned_optimizer_swapper.py and aio_config. Not modelled:
// gradients too small to be swapped, and the page cache.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset zero_infinity_preset() {
  PolicyParameters p = zero3_offload_preset().parameters;
  p.name = "zero-infinity";
  p.nvme_states = -1;
  p.nvme_weights = -1;
  p.nvme_slots = 1;
  p.gradients = TierKind::nvme;
  return {{p.name, "ZeRO-3 with weights and states on NVMe: read, update and write one after the other",
           "DeepSpeed ZeRO-Infinity, stage 3 with NVMe offload", false, "deepspeed.toml"},
          p};
}

}  // namespace penstock
