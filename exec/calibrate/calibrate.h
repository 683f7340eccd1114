// Measures this machine into a profile for some scenarios: their models' kernels at their micro-batches, copies, DRAM,
// AdamW, signalling. Microbenchmarks only; no training step is run and no schedule is looked at. NVMe
// figures are the (first) scenario's; nvme.h measures a drive.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "shared/machine/profile.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

/// Says what is being measured next; `share` of all is done.
using CalibrationProgress = std::function<void(const std::string& what, double share)>;

/// The host backend: the CPU stands in for the GPU, and the scenario's throttle for the link.
Profile calibrate_host(const Scenario& scenario, const CalibrationProgress& progress);

/// The CUDA backend on device 0, for all of the scenarios (not empty). Throws DoesNotFit if a layer with its
/// activations does not fit the device, std::runtime_error where the build has no CUDA.
Profile calibrate_cuda(std::span<const Scenario> scenarios, const CalibrationProgress& progress);

/// Now, as profiles date themselves (ISO 8601, UTC).
std::string utc_date();

}  // namespace penstock::exec
