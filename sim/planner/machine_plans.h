// The planner's schedule of one workload on each of several machines.
//
// Machines are planned side by side, one thread each. Of machines that differ in how much DRAM they have alone, the
// largest is planned first: where its plan fits into less, it is the plan there too, since less memory makes nothing
// faster; and where less memory runs a faster plan than the search found for more, that is the plan of both, unless it
// needs a drive that more memory does without. So, drives aside, more memory is never slower, and the plans are the same
// whatever the number of threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/planner/search.h"

namespace penstock::sim {

struct PlanningTask {
  std::string name;
  std::string kind;  // the same for machines that differ in DRAM capacity alone
  Machine machine;
};

/// In the order of `tasks`. `space` makes the search's space of the scenario on one of the machines. Of `how` threads,
/// tolerance, budgets, deadline and stop are taken. `progress` hears, from any thread, which machine is at what.
/// Throws what `search` throws, for the first task by order of its kind.
std::vector<SearchResult> plan_machines(
    const Scenario& workload, const std::vector<PlanningTask>& tasks,
    const std::function<SearchSpace(const Scenario&)>& space, const SearchOptions& how,
    const std::function<void(const std::string& name, const SearchProgress& progress)>& progress);

}  // namespace penstock::sim
