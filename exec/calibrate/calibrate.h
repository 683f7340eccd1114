// Measures this machine into a profile for one scenario: its model's kernels at its micro-batch, copies, DRAM, AdamW,
// signalling. Microbenchmarks only; no training step is run and no schedule is looked at.
#pragma once

#include <functional>
#include <string>

#include "shared/machine/profile.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// Says what is being measured next; `share` of all is done.
using CalibrationProgress = std::function<void(const std::string& what, double share)>;

/// The host backend: the CPU stands in for the GPU, and the scenario's throttle for the link.
Profile calibrate_host(const Scenario& scenario, const CalibrationProgress& progress);

}  // namespace penstock::exec
