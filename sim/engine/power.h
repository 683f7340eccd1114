// How far a GPU has slowed down from its burst to its sustained speed (docs/model.md, section 4).
#pragma once

#include <span>
#include <vector>

#include "shared/machine/machine.h"

namespace penstock::sim {

/// Of a GPU that computes for `duty` of the time, on one curve: linear between its points, (0, 0) and (1, 1).
double power_share(std::span<const PowerPoint> curve, double duty);

/// The curve of work that takes `slowdown` longer without a pause: linear between the two measured curves around it,
/// the nearest one beyond them. Empty if none was measured. REQUIRES: `measured` ascends in slowdown, then in duty.
std::vector<PowerPoint> power_curve(std::span<const PowerPoint> measured, double slowdown);

/// What the mean share of a step cannot be below, whose compute lane is busy for `duty` of the time: on the lower
/// convex hull of all curves (the mean of a convex function is no less than the function of the mean, and an op finds
/// the lane at least as busy as it is on average).
double least_power_share(std::span<const PowerPoint> measured, double duty);

}  // namespace penstock::sim
