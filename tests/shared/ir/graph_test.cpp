#include "shared/ir/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/shared/ir/small_schedule.h"

namespace penstock {
namespace {

/// Three lanes, one of them of the GPU, one launch lane; ops without operands.
Schedule bare(const std::vector<int>& lanes) {
  Schedule schedule;
  schedule.lanes = {{"compute", LaneKind::gpu_compute, 0},
                    {"h2d", LaneKind::copy_h2d, 0},
                    {"host", LaneKind::host, 0},
                    {"launch", LaneKind::launch, 0}};
  for (const int lane : lanes) {
    Op op;
    op.id = static_cast<int>(schedule.ops.size());
    op.name = "op";
    op.lane = lane;
    op.work = HostPassWork{};
    schedule.ops.push_back(op);
  }
  return schedule;
}

TEST(UnrolledGraph, FollowsLanesWithinAndAcrossSteps) {
  const Schedule schedule = bare({0, 1, 0});
  const UnrolledGraph graph(schedule, 2);
  EXPECT_EQ(graph.successors({0, 0}), (std::vector<OpInstance>{{0, 2}}));
  EXPECT_EQ(graph.successors({0, 2}), (std::vector<OpInstance>{{1, 0}}));  // the lane's first op of the next step
  EXPECT_EQ(graph.successors({0, 1}), (std::vector<OpInstance>{{1, 1}}));
  EXPECT_TRUE(graph.reaches({0, 0}, {1, 2}));
  EXPECT_FALSE(graph.reaches({0, 0}, {1, 1}));
  EXPECT_EQ(graph.topological_order().size(), 6u);
}

TEST(UnrolledGraph, ShiftsEdgesByTheirDistance) {
  Schedule schedule = bare({0, 1});
  schedule.edges = {{1, 0, 1}};
  const UnrolledGraph graph(schedule, 3);
  EXPECT_TRUE(graph.reaches({0, 1}, {1, 0}));
  EXPECT_FALSE(graph.reaches({0, 1}, {0, 0}));
  EXPECT_TRUE(graph.reaches({0, 1}, {2, 0}));
}

// Launch lane 3: op 1 waits for op 0 of the host. GPU ops launched later start after it, host ops need not.
TEST(UnrolledGraph, KnowsTheLaunchRule) {
  Schedule schedule = bare({2, 3, 0, 2, 1});
  schedule.ops[1].work = WaitWork{0, 0};
  const UnrolledGraph graph(schedule, 2);
  EXPECT_TRUE(graph.reaches({0, 0}, {0, 2}));
  EXPECT_TRUE(graph.reaches({0, 1}, {0, 4}));
  EXPECT_FALSE(graph.reaches({0, 1}, {0, 3}));
}

// A GPU op launched before the step's wait still stands behind the wait of the step before.
TEST(UnrolledGraph, CarriesTheLaunchRuleIntoTheNextStep) {
  Schedule schedule = bare({0, 2, 3});
  schedule.ops[2].work = WaitWork{1, 0};
  const UnrolledGraph graph(schedule, 2);
  EXPECT_FALSE(graph.reaches({0, 1}, {0, 0}));
  EXPECT_TRUE(graph.reaches({0, 1}, {1, 0}));
}

TEST(UnrolledGraph, WaitsOverADistance) {
  Schedule schedule = bare({3, 0});
  schedule.ops[0].work = WaitWork{1, 1};
  const UnrolledGraph graph(schedule, 2);
  EXPECT_TRUE(graph.reaches({0, 1}, {1, 0}));
  EXPECT_FALSE(graph.topological_order().empty());
}

TEST(UnrolledGraph, FindsAShortestCycle) {
  Schedule schedule = bare({0, 0, 1, 2, 2});
  schedule.edges = {{0, 2, 0}, {2, 3, 0}, {3, 0, 0}, {1, 4, 0}};
  const UnrolledGraph graph(schedule, 2);
  EXPECT_TRUE(graph.topological_order().empty());
  EXPECT_EQ(graph.find_cycle(), (std::vector<OpInstance>{{0, 0}, {0, 2}, {0, 3}}));
  schedule.edges[2].distance = 1;
  EXPECT_TRUE(UnrolledGraph(schedule, 2).find_cycle().empty());
}

TEST(UnrolledGraph, FindsAnOpThatWaitsForItself) {
  Schedule schedule = bare({0, 1});
  schedule.edges = {{1, 1, 0}};
  EXPECT_EQ(UnrolledGraph(schedule, 1).find_cycle(), (std::vector<OpInstance>{{0, 1}}));
}

TEST(UnrolledGraph, OrdersEverythingAfterWhatItWaitsFor) {
  const Schedule schedule = small_schedule();
  const std::vector<OpInstance> order = UnrolledGraph(schedule, 2).topological_order();
  ASSERT_EQ(order.size(), 2 * schedule.ops.size());
  const auto place = [&](int step, int op) { return std::find(order.begin(), order.end(), OpInstance{step, op}); };
  for (const Edge& edge : schedule.edges)
    for (int step = edge.distance; step < 2; ++step)
      EXPECT_LT(place(step - edge.distance, edge.from), place(step, edge.to));
}

TEST(EdgeImplied, ByLaneByOthersAndNot) {
  Schedule schedule = bare({0, 1, 0, 2});
  schedule.edges = {{0, 2, 0}, {1, 2, 0}, {2, 3, 0}, {1, 3, 0}, {0, 3, 1}, {3, 0, 1}};
  EXPECT_TRUE(edge_implied(schedule, 0));  // same lane
  EXPECT_FALSE(edge_implied(schedule, 1));
  EXPECT_FALSE(edge_implied(schedule, 2));
  EXPECT_TRUE(edge_implied(schedule, 3));  // 1 -> 2 -> 3
  EXPECT_TRUE(edge_implied(schedule, 4));  // 0 -> 2 -> 3 and then the lane of 3
  EXPECT_FALSE(edge_implied(schedule, 5));
}

// Of two equal edges each one is implied by the other.
TEST(EdgeImplied, ByATwin) {
  Schedule schedule = bare({0, 1});
  schedule.edges = {{0, 1, 0}, {0, 1, 0}};
  EXPECT_TRUE(edge_implied(schedule, 0));
  EXPECT_TRUE(edge_implied(schedule, 1));
  schedule.edges.pop_back();
  EXPECT_FALSE(edge_implied(schedule, 0));
}

}  // namespace
}  // namespace penstock
