// What no schedule can beat: printed beside every prediction, and what the planner prunes by.
#pragma once

#include <vector>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/model/model.h"
#include "sim/engine/resources.h"
#include "sim/simulate.h"

namespace penstock::sim {

/// Same ops, any order: the largest of
///   each lane      sum over its ops of solo seconds (at the sustained rate: a lane that never pauses runs at it),
///   the launches   sum of launch seconds,
///   each resource  sum over all ops of what they use of it / the most that it ever gives.
Bounds same_traffic_bound(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities);

/// Any schedule at all: model FLOPs of the step / best_matmul_rate.
double any_schedule_seconds(const Schedule& schedule, const Model& model, const Machine& machine);

}  // namespace penstock::sim
