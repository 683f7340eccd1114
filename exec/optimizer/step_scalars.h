// The part of a step's scalars that depends on what the step computed, shared by host and device.
#pragma once

#include <cmath>

#include "exec/numerics/host_device.h"
#include "exec/optimizer/adamw.h"

namespace penstock::exec {

/// Sets norm, clip_scale and skip from the total of all norm partials. All in fp64: correctly rounded sqrt and
/// division, so the bits are the same on host and device. A norm that is not finite sets skip = 1 and clip_scale = 0.
PENSTOCK_HOST_DEVICE inline void apply_norm(StepScalars& scalars, double sum_of_squares, double max_norm) {
  const double norm = sqrt(sum_of_squares);
  scalars.norm = norm;
  // x - x is 0 for finite x and NaN otherwise; isfinite is no device function under every compiler.
  if (!(norm - norm == 0)) {
    scalars.clip_scale = 0;
    scalars.skip = 1;
    return;
  }
  const double scale = max_norm / (norm + 1e-6);
  scalars.clip_scale = static_cast<float>(scale < 1 ? scale : 1.0);
  scalars.skip = 0;
}

/// A step without a token that is trained on has no gradient: nothing is updated.
PENSTOCK_HOST_DEVICE inline void skip_untrained(StepScalars& scalars, double trained_tokens) {
  if (!(trained_tokens > 0)) scalars.skip = 1;
}

}  // namespace penstock::exec
