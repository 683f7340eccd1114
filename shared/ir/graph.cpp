#include "shared/ir/graph.h"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/iterator/function_output_iterator.hpp>
#include <iterator>
#include <utility>

namespace penstock {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                                 boost::no_property, std::uint32_t, std::size_t>;
using Node = std::uint32_t;
using ArcList = std::vector<std::pair<Node, Node>>;

/// Appends the arc (step - distance, from) -> (step, to) for every step that has both ends.
void add_arcs(ArcList& arcs, int steps, std::size_t ops, int from, int to, int distance) {
  for (int step = distance; step < steps; ++step)
    arcs.emplace_back(
        static_cast<Node>(static_cast<std::size_t>(step - distance) * ops + static_cast<std::size_t>(from)),
        static_cast<Node>(static_cast<std::size_t>(step) * ops + static_cast<std::size_t>(to)));
}

ArcList schedule_arcs(const Schedule& schedule, int steps, std::optional<std::size_t> without_edge) {
  const std::size_t ops = schedule.ops.size();
  ArcList arcs;
  arcs.reserve(static_cast<std::size_t>(steps) * (3 * ops + schedule.edges.size()));
  const auto add = [&](int from, int to, int distance) { add_arcs(arcs, steps, ops, from, to, distance); };

  std::vector<int> first(schedule.lanes.size(), -1), last(schedule.lanes.size(), -1);
  int final_wait = -1;
  for (const Op& op : schedule.ops)
    if (std::holds_alternative<WaitWork>(op.work)) final_wait = op.id;
  int wait = -1;
  for (const Op& op : schedule.ops) {
    const auto lane = static_cast<std::size_t>(op.lane);
    if (last[lane] >= 0)
      add(last[lane], op.id, 0);
    else
      first[lane] = op.id;
    last[lane] = op.id;
    if (const auto* awaited = std::get_if<WaitWork>(&op.work)) {
      add(awaited->op, op.id, awaited->distance);
      wait = op.id;
    } else if (is_gpu(schedule.lanes[lane].kind)) {
      if (wait >= 0)
        add(wait, op.id, 0);
      else if (final_wait >= 0)
        add(final_wait, op.id, 1);
    }
  }
  for (std::size_t lane = 0; lane < first.size(); ++lane)
    if (first[lane] >= 0) add(last[lane], first[lane], 1);
  for (std::size_t i = 0; i < schedule.edges.size(); ++i)
    if (i != without_edge) add(schedule.edges[i].from, schedule.edges[i].to, schedule.edges[i].distance);
  return arcs;
}

/// Stops a Boost search from within.
struct Found {};

}  // namespace

struct UnrolledGraph::Arcs {
  Arcs(const ArcList& arcs, int step_count, std::size_t op_count)
      : graph(boost::edges_are_unsorted_multi_pass, arcs.begin(), arcs.end(),
              static_cast<Node>(static_cast<std::size_t>(step_count) * op_count)),
        steps(step_count),
        ops(static_cast<Node>(op_count)) {}

  OpInstance instance(Node node) const { return {static_cast<int>(node / ops), static_cast<int>(node % ops)}; }
  Node node(OpInstance at) const { return static_cast<Node>(at.step) * ops + static_cast<Node>(at.op); }

  /// Shortest path from `from` to `to`, both included; empty if there is none.
  std::vector<Node> path(Node from, Node to) const {
    std::vector<Node> before(boost::num_vertices(graph), from);
    bool reached = from == to;
    if (!reached) {
      struct Visitor : boost::default_bfs_visitor {
        Visitor(std::vector<Node>& before_, Node target_) : before(before_), target(target_) {}
        void tree_edge(Graph::edge_descriptor arc, const Graph& g) const {
          const auto at = static_cast<Node>(boost::target(arc, g));
          before[at] = static_cast<Node>(boost::source(arc, g));
          if (at == target) throw Found{};
        }
        std::vector<Node>& before;
        Node target;
      };
      try {
        boost::breadth_first_search(graph, from, boost::visitor(Visitor(before, to)));
      } catch (const Found&) {
        reached = true;
      }
    }
    if (!reached) return {};
    std::vector<Node> nodes{to};
    while (nodes.back() != from) nodes.push_back(before[nodes.back()]);
    std::reverse(nodes.begin(), nodes.end());
    return nodes;
  }

  Graph graph;
  int steps;
  Node ops;
};

UnrolledGraph::UnrolledGraph(const Schedule& schedule, int steps, std::optional<std::size_t> without_edge)
    : arcs_(std::make_unique<Arcs>(schedule_arcs(schedule, steps, without_edge), steps, schedule.ops.size())) {}
UnrolledGraph::~UnrolledGraph() = default;
UnrolledGraph::UnrolledGraph(UnrolledGraph&&) noexcept = default;
UnrolledGraph& UnrolledGraph::operator=(UnrolledGraph&&) noexcept = default;

int UnrolledGraph::steps() const { return arcs_->steps; }

std::vector<OpInstance> UnrolledGraph::successors(OpInstance from) const {
  std::vector<OpInstance> list;
  for (auto [at, end] = boost::adjacent_vertices(arcs_->node(from), arcs_->graph); at != end; ++at)
    list.push_back(arcs_->instance(static_cast<Node>(*at)));
  return list;
}

std::vector<OpInstance> UnrolledGraph::topological_order() const {
  std::vector<OpInstance> order;
  order.reserve(boost::num_vertices(arcs_->graph));
  const auto append = [&](const auto& node) { order.push_back(arcs_->instance(static_cast<Node>(node))); };
  try {
    boost::topological_sort(arcs_->graph, boost::make_function_output_iterator(append));
  } catch (const boost::not_a_dag&) {
    return {};
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<OpInstance> UnrolledGraph::find_cycle() const {
  const Graph& graph = arcs_->graph;
  // Every cycle has an arc that goes backwards; an arc lies on a cycle if both ends are in one strong component.
  std::vector<Node> component(boost::num_vertices(graph));
  boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  for (auto [arc, end] = boost::edges(graph); arc != end; ++arc) {
    const auto from = static_cast<Node>(boost::source(*arc, graph)), to = static_cast<Node>(boost::target(*arc, graph));
    if (from < to || component[from] != component[to]) continue;
    std::vector<OpInstance> cycle;
    for (const Node node : arcs_->path(to, from)) cycle.push_back(arcs_->instance(node));
    return cycle;
  }
  return {};
}

bool UnrolledGraph::reaches(OpInstance from, OpInstance to) const {
  return from == to || !arcs_->path(arcs_->node(from), arcs_->node(to)).empty();
}

bool edge_implied(const Schedule& schedule, std::size_t edge) {
  const Edge& left_out = schedule.edges[edge];
  // Arcs never lead to an earlier step, so that a path of total distance d lies within d + 1 steps.
  const UnrolledGraph graph(schedule, left_out.distance + 1, edge);
  const OpInstance from{0, left_out.from}, to{left_out.distance, left_out.to};
  return from != to && graph.reaches(from, to);
}

}  // namespace penstock
