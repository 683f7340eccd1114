// Everything in HBM, nothing streamed: what a GPU that is large enough would do, and the oracle for the bits of all
// others with the same numerics.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset resident_preset() {
  PolicyParameters p;
  p.name = "resident";
  p.group = 1;
  p.resident_weights = -1;
  p.resident_states = -1;
  p.keep = Keep::input;
  p.gradients = TierKind::hbm;
  p.optimizer_place = OptimizerPlace::gpu;
  p.optimizer_time = OptimizerTime::end;
  return {{p.name, "weights, states, gradients and activations all in HBM", "plain training with recompute per layer"},
          p};
}

}  // namespace penstock
