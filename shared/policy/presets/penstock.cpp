// Ours, before a planner has chosen: layer-major, so that weights cross the link once per pass whatever the batch;
// recompute from layer inputs; exact fp32 master in planes; the optimizer after the exact norm, hidden under the next
// step's forward.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset penstock_preset() {
  PolicyParameters p;
  p.name = "penstock";
  p.group = 0;
  p.weight_buffers = 2;
  p.keep = Keep::input;
  p.activations = TierKind::hbm;
  p.gradients = TierKind::dram;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::next_forward;
  return {{p.name, "layer-major, exact AdamW with clipping, optimizer under the next forward",
           "Penstock, docs/policies.md"},
          p};
}

}  // namespace penstock
