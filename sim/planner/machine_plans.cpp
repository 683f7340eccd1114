#include "sim/planner/machine_plans.h"

#include <algorithm>
#include <limits>

#include "sim/planner/open_policy.h"
#include "sim/planner/parallel.h"

namespace penstock::sim {
namespace {

/// Indices of tasks by kind, in order of the kind's first task; within a kind the most DRAM first.
std::vector<std::vector<std::size_t>> kinds_of(const std::vector<PlanningTask>& tasks) {
  std::vector<std::vector<std::size_t>> kinds;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto same = [&](const std::vector<std::size_t>& kind) { return tasks[kind.front()].kind == tasks[i].kind; };
    const auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found == kinds.end())
      kinds.push_back({i});
    else
      found->push_back(i);
  }
  for (std::vector<std::size_t>& kind : kinds)
    std::stable_sort(kind.begin(), kind.end(), [&](std::size_t a, std::size_t b) {
      return tasks[a].machine.dram_bytes > tasks[b].machine.dram_bytes;
    });
  return kinds;
}

double step_of(const SearchResult& plan) {
  return plan.best.empty() ? std::numeric_limits<double>::infinity() : plan.best.front().step_seconds;
}

/// What it keeps on NVMe; no plan: as much as one likes.
std::int64_t drive_bytes(const SearchResult& plan) {
  return plan.best.empty() ? std::numeric_limits<std::int64_t>::max() : plan.best.front().arenas.nvme;
}

bool holds(const Machine& machine, const ArenaBytes& arenas) {
  const TierCapacities tiers = usable_memory(machine);
  return arenas.hbm <= tiers.hbm && arenas.dram <= tiers.dram && arenas.nvme <= tiers.nvme;
}

}  // namespace

std::vector<SearchResult> plan_machines(
    const Scenario& workload, const std::vector<PlanningTask>& tasks,
    const std::function<SearchSpace(const Scenario&)>& space, const SearchOptions& how,
    const std::function<void(const std::string& name, const SearchProgress& progress)>& progress) {
  const std::vector<std::vector<std::size_t>> kinds = kinds_of(tasks);
  const std::size_t threads = thread_count(how.threads);
  std::vector<SearchResult> plans(tasks.size());
  parallel_for(kinds.size(), threads, [&](std::size_t kind, std::size_t) {
    const SearchResult* larger = nullptr;
    for (const std::size_t index : kinds[kind]) {
      const PlanningTask& task = tasks[index];
      if (larger != nullptr && holds(task.machine, larger->best.front().arenas)) {
        plans[index].best = larger->best;
        continue;
      }
      Scenario scenario = workload;
      scenario.machine = task.machine;
      SearchOptions options = how;
      options.threads = static_cast<int>(std::max<std::size_t>(1, threads / kinds.size()));
      if (progress) options.progress = [&](const SearchProgress& now) { progress(task.name, now); };
      plans[index] = search_or_least(scenario, space(scenario), options);
      if (!plans[index].best.empty()) larger = &plans[index];
    }
    // What less memory runs, more runs too: a search may have missed it by its tolerance or its budget. But nothing is
    // put on NVMe where DRAM suffices (search.h).
    const SearchResult* smaller = nullptr;
    for (auto index = kinds[kind].rbegin(); index != kinds[kind].rend(); ++index) {
      SearchResult& plan = plans[*index];
      if (smaller != nullptr && step_of(*smaller) < step_of(plan) && drive_bytes(*smaller) <= drive_bytes(plan))
        plan.best = smaller->best;
      if (!plan.best.empty()) smaller = &plan;
    }
  });
  return plans;
}

}  // namespace penstock::sim
