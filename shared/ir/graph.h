// What must end before what starts: the schedule as a graph over a number of unrolled steps.
//
// Nodes are op instances (step, op). Arcs:
//   - lane order: each op of a lane after the one before it, and the lane's first op after its last of the step before;
//   - edges, with their distance; a wait after the op that it waits for;
//   - the launch rule: a GPU op after the last wait launched before it, in this step or an earlier one. (Waits follow
//   one
//     another by lane order, so it starts after all of them.)
// Boost.Graph stays behind this header.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

struct OpInstance {
  int step = 0;
  int op = 0;

  bool operator==(const OpInstance&) const = default;
};

/// REQUIRES: ids, lanes, edges and waits in range. Immutable; safe to read from several threads.
class UnrolledGraph {
 public:
  /// `without_edge`: index of an edge to leave out.
  UnrolledGraph(const Schedule& schedule, int steps, std::optional<std::size_t> without_edge = std::nullopt);
  ~UnrolledGraph();
  UnrolledGraph(UnrolledGraph&&) noexcept;
  UnrolledGraph& operator=(UnrolledGraph&&) noexcept;

  int steps() const;
  std::vector<OpInstance> successors(OpInstance from) const;
  /// All instances, each after everything that it waits for; empty if there is a cycle.
  std::vector<OpInstance> topological_order() const;
  /// A shortest cycle through the first arc that goes backwards in the order of ids; empty if there is no cycle.
  /// Each op of the list must end before the next one starts, and the last one before the first.
  std::vector<OpInstance> find_cycle() const;
  /// Whether `to` starts after `from` has ended.
  bool reaches(OpInstance from, OpInstance to) const;

 private:
  struct Arcs;
  std::unique_ptr<Arcs> arcs_;
};

inline UnrolledGraph unrolled_graph(const Schedule& schedule, int steps) { return UnrolledGraph(schedule, steps); }

/// Whether schedule.edges[edge] follows from lane order, the launch rule and the other edges. Linear in ops and edges.
bool edge_implied(const Schedule& schedule, std::size_t edge);

}  // namespace penstock
