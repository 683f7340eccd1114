#include "sim/engine/flat_schedule.h"

#include <stdexcept>

namespace penstock::sim {
namespace {

/// Groups the second of each pair by the first, keeping the order.
IndexLists grouped(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs, int lists) {
  IndexLists result;
  result.begin.assign(static_cast<std::size_t>(lists) + 1, 0);
  for (const auto& [list, item] : pairs) ++result.begin[list + 1];
  for (int i = 0; i < lists; ++i) result.begin[i + 1] += result.begin[i];
  result.items.resize(pairs.size());
  std::vector<std::int32_t> next(result.begin.begin(), result.begin.end() - 1);
  for (const auto& [list, item] : pairs) result.items[next[list]++] = item;
  return result;
}

}  // namespace

FlatSchedule::FlatSchedule(const Schedule& schedule, const std::vector<OpCost>& costs) {
  if (costs.size() != schedule.ops.size()) throw std::logic_error("FlatSchedule: one cost per op is needed");
  ops = static_cast<int>(schedule.ops.size());
  lanes = static_cast<int>(schedule.lanes.size());
  lane_of.assign(costs.size(), -1);
  segment_of.assign(costs.size(), -1);
  launch_offset.assign(costs.size(), 0);
  predecessors.assign(costs.size(), 0);
  predecessors_before.assign(costs.size(), 0);
  segment_seconds.push_back(0);

  using Pair = std::pair<std::int32_t, std::int32_t>;
  std::vector<Pair> in_lane, same, next;
  const auto add_edge = [&](int from, int to, int distance) {
    (distance == 0 ? same : next).push_back({from, to});
    ++(distance == 0 ? predecessors : predecessors_before)[to];
  };
  for (const Op& op : schedule.ops) {
    const LaneKind kind = schedule.lanes[op.lane].kind;
    if (const auto* wait = std::get_if<WaitWork>(&op.work)) {
      segment_of[op.id] = static_cast<std::int32_t>(waits.size());
      waits.push_back(op.id);
      segment_seconds.push_back(0);
      add_edge(wait->op, op.id, wait->distance);
      continue;
    }
    if (kind == LaneKind::launch)
      throw std::logic_error("FlatSchedule: op " + op.name + " is on the launch lane but no wait");
    lane_of[op.id] = op.lane;
    in_lane.push_back({op.lane, op.id});
    if (!is_gpu(kind)) continue;
    segment_seconds.back() += costs[op.id].launch_seconds;
    segment_of[op.id] = static_cast<std::int32_t>(segment_seconds.size()) - 1;
    launch_offset[op.id] = segment_seconds.back();
  }
  for (const Edge& edge : schedule.edges) add_edge(edge.from, edge.to, edge.distance);
  lane_ops = grouped(in_lane, lanes);
  same_step = grouped(same, ops);
  next_step = grouped(next, ops);
}

}  // namespace penstock::sim
