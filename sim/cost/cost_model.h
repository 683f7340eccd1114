// What each op of a schedule costs on a machine: seconds alone, and what it uses of the shared resources meanwhile.
// docs/model.md has every formula with a worked number.
#pragma once

#include <vector>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/model/model.h"
#include "sim/engine/resources.h"

namespace penstock::sim {

/// One cost per op. Throws InputError if the machine lacks a figure that the schedule needs (an NVMe bandwidth, say).
std::vector<OpCost> op_costs(const Schedule& schedule, const Model& model, const Machine& machine);

/// Sum of kernel FLOPs of all template ops of one step, recomputation included.
double executed_flops(const Schedule& schedule, const Model& model);

/// Capacities of the machine for every combination of active traffic, with up to `max_threads` CPU threads:
///  - the link's directions in duplex where both are active;
///  - with a table of measured sharing, each class gets what was measured for the active combination, linear in the
///    number of threads (from the link alone at 0 threads), and DRAM's total is the largest that was measured;
///  - copies through rings likewise, from points of their own; without those they share what there is as any op does;
///  - without a table DRAM is one capacity that everybody shares.
/// The power curve is not among them: it depends on what the GPU computes.
Capacities machine_capacities(const Machine& machine, int max_threads);

/// How much longer the GPU's ops of one step take when they never pause, of their time in a burst.
double sustained_slowdown(const std::vector<OpCost>& costs);

/// CPU threads that all host ops together use at most: the sum over lanes of the largest op of each.
int schedule_threads(const std::vector<OpCost>& costs, const Schedule& schedule);

}  // namespace penstock::sim
