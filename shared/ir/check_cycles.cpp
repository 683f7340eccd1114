#include <fmt/format.h>

#include <algorithm>

#include "shared/ir/check_parts.h"
#include "shared/ir/graph.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

constexpr std::size_t kShownOps = 8;
constexpr int kSteps = 2;

const Op& op_at(const Schedule& schedule, int id) { return schedule.ops[static_cast<std::size_t>(id)]; }

std::string chain_text(const Schedule& schedule, const std::vector<OpInstance>& cycle) {
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > kShownOps && i == kShownOps - 2) {
      text += fmt::format("... {} more ... -> ", cycle.size() - kShownOps + 1);
      i = cycle.size() - 1;
    }
    text += op_title(op_at(schedule, cycle[i].op)) + " -> ";
  }
  return text + op_title(op_at(schedule, cycle.front().op));
}

/// What to do about the arc from -> to of distance 0, which goes backwards in the order of ids.
std::string cure(const Schedule& schedule, int from, int to) {
  if (from == to) return "an op cannot wait for itself";
  if (const auto* wait = std::get_if<WaitWork>(&op_at(schedule, to).work);
      wait && wait->op == from && wait->distance == 0)
    return fmt::format(
        "{} waits for op {}, which comes after it in the order of ids: with distance 1 it would be legal",
        op_title(op_at(schedule, to)), from);
  return fmt::format(
      "the edge from op {} to op {} goes backwards in the order of ids: with distance 1 it would be legal", from, to);
}

}  // namespace

bool check_cycles(const Schedule& schedule, FaultList& faults) {
  // Every other arc goes forwards: lanes are in the order of ids, and what is launched waits for what was before it.
  const auto goes_forwards = [](const Edge& edge) { return edge.distance != 0 || edge.from < edge.to; };
  const auto waits_forwards = [](const Op& op) {
    const auto* wait = std::get_if<WaitWork>(&op.work);
    return !wait || wait->distance != 0 || wait->op < op.id;
  };
  if (std::all_of(schedule.edges.begin(), schedule.edges.end(), goes_forwards) &&
      std::all_of(schedule.ops.begin(), schedule.ops.end(), waits_forwards))
    return true;
  const UnrolledGraph graph(schedule, kSteps);
  if (const auto cycle = graph.topological_order().empty() ? graph.find_cycle() : std::vector<OpInstance>{};
      !cycle.empty()) {
    const int from = cycle.back().op, to = cycle.front().op;
    faults.add(FaultKind::cycle, from, to,
               fmt::format("deadlock, each waits for the one before it: {}; {}", chain_text(schedule, cycle),
                           cure(schedule, from, to)));
    return false;
  }
  bool forwards = true;
  const auto backward = [&](int from, int to) {
    if (from < to) return;
    forwards = false;
    faults.add(FaultKind::malformed, from, to,
               fmt::format("{} waits for {} of the same step, which comes later: ids must be one topological order; {}",
                           op_title(op_at(schedule, to)), op_title(op_at(schedule, from)), cure(schedule, from, to)));
  };
  for (const Edge& edge : schedule.edges)
    if (edge.distance == 0) backward(edge.from, edge.to);
  for (const Op& op : schedule.ops)
    if (const auto* wait = std::get_if<WaitWork>(&op.work); wait && wait->distance == 0) backward(wait->op, op.id);
  return forwards;
}

}  // namespace penstock
