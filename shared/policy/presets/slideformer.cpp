// SlideFormer: fp32 master and moments on the host (12 B/param; our planes have the same bytes), bf16 over the link,
// both directions on one stream; the CPU updates each layer as its gradient lands, so there is no global-norm clipping.
// It has no gradient accumulation: run it with one micro-batch to stand for the system; more are added up layer-major
// here. Not modelled: the cast to bf16 while uploading (6 B/param of DRAM traffic per load).
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset slideformer_preset() {
  PolicyParameters p;
  p.name = "slideformer";
  p.group = 0;
  p.weight_buffers = 2;
  p.copy_lanes = CopyLanes::shared;
  p.keep = Keep::input;
  p.gradients = TierKind::dram;
  p.numerics.clip = false;
  p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = OptimizerTime::backward;
  return {
      {p.name, "each layer updated on the CPU as its gradient lands, without clipping", "SlideFormer, paper and code"},
      p};
}

}  // namespace penstock
