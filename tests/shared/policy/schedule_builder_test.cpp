// Edges derived from ops in list order, each expected one with its reason.
#include "shared/policy/schedule_builder.h"

#include <gtest/gtest.h>

#include "shared/error.h"

namespace penstock {
namespace {

Schedule empty_schedule() {
  Schedule schedule;
  schedule.tiers = {{TierKind::hbm, 0, 1 << 20}, {TierKind::dram, 0, 1 << 20}};
  return schedule;
}

class ScheduleBuilderTest : public ::testing::Test {
 protected:
  ScheduleBuilderTest() : builder(empty_schedule(), ScheduleBuilder::Makes::schedule) {
    a = builder.add_lane("a", LaneKind::gpu_compute);
    b = builder.add_lane("b", LaneKind::copy_h2d);
    c = builder.add_lane("c", LaneKind::host);
    x = buffer("x", TierKind::hbm, 100);
    y = buffer("y", TierKind::hbm, 100);
  }

  int buffer(const char* name, TierKind tier, std::int64_t bytes) {
    return builder.add_buffers(1, tier, bytes, false, [&] { return name; });
  }

  static Access all(int buffer) { return {buffer, 0, 100, {}}; }

  int op(int lane, std::vector<Access> reads, std::vector<Access> writes) {
    Op made;
    made.lane = lane;
    made.reads = std::move(reads);
    made.writes = std::move(writes);
    return builder.add_op(made);
  }

  int wait(int awaited, int distance) {
    Op made;
    if (launch < 0) launch = builder.add_lane("launch", LaneKind::launch);
    made.lane = launch;
    made.work = WaitWork{awaited, distance};
    return builder.add_op(made);
  }

  std::vector<Edge> edges() { return builder.finish().edges; }

  ScheduleBuilder builder;
  int a, b, c, x, y, launch = -1;
};

TEST_F(ScheduleBuilderTest, BuffersStartAtAlignedOffsetsOfTheirTier) {
  buffer("host", TierKind::dram, 10);
  const std::vector<Buffer>& buffers = builder.schedule().buffers;
  EXPECT_EQ(buffers[0].offset_bytes, 0);
  EXPECT_EQ(buffers[1].offset_bytes, 256);  // 100 bytes, rounded up to kFieldAlignment
  EXPECT_EQ(buffers[2].offset_bytes, 0);
  EXPECT_THROW(buffer("disk", TierKind::nvme, 10), InputError);
}

TEST(ScheduleBuilder, PlacesAloneEndWhereTheScheduleWould) {
  ScheduleBuilder written(empty_schedule(), ScheduleBuilder::Makes::schedule),
      placed(empty_schedule(), ScheduleBuilder::Makes::places);
  const auto name = [] { return "x"; };
  for (int i = 0; i < 1000; ++i) written.add_buffers(1, TierKind::dram, 300, false, name);
  EXPECT_EQ(placed.add_buffers(1000, TierKind::dram, 300, false, name), 0);
  EXPECT_EQ(written.arena_bytes(TierKind::dram), 999 * 512 + 300);  // 300 bytes take 512, the last one its own
  EXPECT_EQ(placed.arena_bytes(TierKind::dram), 999 * 512 + 300);
  EXPECT_EQ(placed.add_buffers(1, TierKind::hbm, 1, false, name), 1000);  // counted as the schedule would
  EXPECT_TRUE(placed.schedule().buffers.empty());
  // Together they would not lie below 2^60 bytes, though one does.
  EXPECT_THROW(placed.add_buffers(1000, TierKind::dram, std::int64_t{1} << 52, false, name), InputError);
  placed.add_initial(0, {TensorKind::weights, 1}, 300);
  EXPECT_TRUE(placed.schedule().initial.empty());
}

TEST_F(ScheduleBuilderTest, ReadAfterWriteWithinAndWriteAfterReadAcross) {
  const int write = op(b, {}, {all(x)});
  const int read = op(a, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{read, write, 1}, {write, read, 0}}));
}

TEST_F(ScheduleBuilderTest, LaneOrderNeedsNoEdge) {
  op(a, {}, {all(x)});
  op(a, {all(x)}, {all(y)});
  op(a, {all(y)}, {all(x)});
  EXPECT_TRUE(edges().empty());
}

TEST_F(ScheduleBuilderTest, ReadersOfTheSameBytesAreFree) {
  const int write = op(c, {}, {all(x)});
  const int one = op(a, {all(x)}, {});
  const int other = op(b, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{one, write, 1}, {other, write, 1}, {write, one, 0}, {write, other, 0}}));
}

TEST_F(ScheduleBuilderTest, DisjointBytesOfOneBufferAreFree) {
  op(a, {}, {{x, 0, 50, {}}});
  op(b, {}, {{x, 50, 50, {}}});
  EXPECT_TRUE(edges().empty());
}

TEST_F(ScheduleBuilderTest, OneSharedByteIsAHazard) {
  const int first = op(a, {}, {{x, 0, 51, {}}});
  const int second = op(b, {}, {{x, 50, 50, {}}});
  EXPECT_EQ(edges(), (std::vector<Edge>{{second, first, 1}, {first, second, 0}}));
}

TEST_F(ScheduleBuilderTest, ALaterPartialWriteHidesOnlyItsBytes) {
  const int whole = op(a, {}, {all(x)});
  const int part = op(b, {}, {{x, 0, 10, {}}});    // after `whole`
  const int reader = op(c, {{x, 0, 20, {}}}, {});  // bytes 0-9 of `part`, which implies `whole` for 10-19
  EXPECT_EQ(edges(), (std::vector<Edge>{{reader, whole, 1}, {whole, part, 0}, {part, reader, 0}}));
}

TEST_F(ScheduleBuilderTest, ChainsImplyWhatLiesBehindThem) {
  const int first = op(a, {}, {all(x)});
  const int second = op(b, {all(x)}, {all(y)});
  const int third = op(c, {all(x), all(y)}, {});  // first -> third follows from first -> second -> third
  EXPECT_EQ(edges(), (std::vector<Edge>{{third, first, 1}, {first, second, 0}, {second, third, 0}}));
  // third -> second of the next step follows from third -> first -> second.
}

TEST_F(ScheduleBuilderTest, WaitsOnTheLaunchLaneOrderGpuOpsButNotHostOps) {
  const int write = op(c, {}, {all(x)});
  const int waits = wait(write, 0);
  op(a, {all(x)}, {});  // launched behind the wait: no edge
  const int host = builder.add_lane("other host", LaneKind::host);
  const int reader = op(host, {all(x)}, {});
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(edges(), (std::vector<Edge>{{2, write, 1}, {reader, write, 1}, {write, reader, 0}}));
}

TEST_F(ScheduleBuilderTest, AWaitForTheStepBeforeOrdersAcrossSteps) {
  wait(2, 1);
  op(a, {}, {all(x)});  // op 1: launched when op 2 of the step before has ended
  op(c, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{1, 2, 0}}));
}

TEST_F(ScheduleBuilderTest, WishesAreKeptUnlessImplied) {
  const int first = op(a, {}, {all(x)});
  const int second = op(b, {}, {all(y)});
  const int third = op(c, {}, {});
  builder.add_edge(first, second, 0);
  builder.add_edge(second, third, 0);
  builder.add_edge(first, third, 0);  // implied
  builder.add_edge(third, first, 1);
  builder.add_edge(third, second, 1);  // implied by third -> first -> second
  EXPECT_EQ(edges(), (std::vector<Edge>{{third, first, 1}, {first, second, 0}, {second, third, 0}}));
}

TEST_F(ScheduleBuilderTest, AnOpDoesNotWaitForItself) {
  op(a, {all(x)}, {all(x)});
  EXPECT_TRUE(edges().empty());
}

}  // namespace
}  // namespace penstock
