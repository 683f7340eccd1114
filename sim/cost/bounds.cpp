#include "sim/cost/bounds.h"

#include "shared/model/kernels.h"
#include "sim/cost/rates.h"

namespace penstock::sim {

Bounds same_traffic_bound(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities) {
  std::vector<double> lane_seconds(schedule.lanes.size(), 0);
  ResourceVector used{};
  double launch_seconds = 0;
  for (const Op& op : schedule.ops) {
    // A wait that comes late costs nothing.
    if (std::holds_alternative<WaitWork>(op.work)) continue;
    const OpCost& cost = costs[op.id];
    lane_seconds[op.lane] += cost.solo_seconds() + cost.sustained_extra_seconds;
    launch_seconds += cost.launch_seconds;
    for (std::size_t r = 0; r < used.size(); ++r) used[r] += cost.demand[r] * cost.fluid_seconds;
  }
  Bounds bounds;
  const auto consider = [&](double seconds, const std::string& name) {
    if (seconds <= bounds.same_traffic_seconds) return;
    bounds.same_traffic_seconds = seconds;
    bounds.binding = name;
  };
  for (std::size_t lane = 0; lane < lane_seconds.size(); ++lane)
    consider(lane_seconds[lane], "lane " + schedule.lanes[lane].name);
  consider(launch_seconds, "launch");
  const ResourceVector capacity = capacities.largest();
  consider(capacities.nvme_seconds(used[kNvmeRead], used[kNvmeWrite]), "nvme");
  for (int r = 0; r < kResources; ++r) consider(used[r] / capacity[r], resource_name(r));
  return bounds;
}

double any_schedule_seconds(const Schedule& schedule, const Model& model, const Machine& machine) {
  return model_flops(model, schedule.whole_step()) / best_matmul_rate(machine.gpu);
}

}  // namespace penstock::sim
