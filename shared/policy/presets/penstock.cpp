// Ours: exact AdamW, clipped by the exact norm; everything else is the planner's to choose (sim/planner/open_policy.h).
// The parameters here are where it starts, and the fixed policy of tests: layer-major, so that weights cross the link
// once per pass whatever the batch; recompute from layer inputs; the optimizer hidden under the next step's forward.
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
  return {{p.name, "exact AdamW with clipping, scheduled by the planner for the machine", "Penstock, docs/planner.md",
           true},
          p};
}

}  // namespace penstock
