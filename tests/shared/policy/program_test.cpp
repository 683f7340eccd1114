// Edges derived from small programs, each expected one with its reason.
#include "shared/policy/program.h"

#include <gtest/gtest.h>

#include "shared/error.h"

namespace penstock {
namespace {

Schedule empty_schedule() {
  Schedule schedule;
  schedule.tiers = {{TierKind::hbm, 0, 1 << 20}, {TierKind::dram, 0, 1 << 20}};
  return schedule;
}

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() : program(empty_schedule(), Program::Makes::schedule) {
    a = program.add_lane("a", LaneKind::gpu_compute);
    b = program.add_lane("b", LaneKind::copy_h2d);
    c = program.add_lane("c", LaneKind::host);
    x = buffer("x", TierKind::hbm, 100);
    y = buffer("y", TierKind::hbm, 100);
  }

  int buffer(const char* name, TierKind tier, std::int64_t bytes) {
    return program.add_buffers(1, tier, bytes, false, [&] { return name; });
  }

  static Access all(int buffer) { return {buffer, 0, 100, {}}; }

  int op(int lane, std::vector<Access> reads, std::vector<Access> writes) {
    Op made;
    made.lane = lane;
    made.reads = std::move(reads);
    made.writes = std::move(writes);
    return program.add_op(made);
  }

  int wait(int awaited, int distance) {
    Op made;
    if (launch < 0) launch = program.add_lane("launch", LaneKind::launch);
    made.lane = launch;
    made.work = WaitWork{awaited, distance};
    return program.add_op(made);
  }

  std::vector<Edge> edges() { return program.finish().edges; }

  Program program;
  int a, b, c, x, y, launch = -1;
};

TEST_F(ProgramTest, BuffersStartAtAlignedOffsetsOfTheirTier) {
  buffer("host", TierKind::dram, 10);
  const std::vector<Buffer>& buffers = program.schedule().buffers;
  EXPECT_EQ(buffers[0].offset_bytes, 0);
  EXPECT_EQ(buffers[1].offset_bytes, 256);  // 100 bytes, rounded up to kFieldAlignment
  EXPECT_EQ(buffers[2].offset_bytes, 0);
  EXPECT_THROW(buffer("disk", TierKind::nvme, 10), InputError);
}

TEST(Program, PlacesAloneEndWhereTheScheduleWould) {
  Program written(empty_schedule(), Program::Makes::schedule), placed(empty_schedule(), Program::Makes::places);
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

TEST_F(ProgramTest, ReadAfterWriteWithinAndWriteAfterReadAcross) {
  const int write = op(b, {}, {all(x)});
  const int read = op(a, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{read, write, 1}, {write, read, 0}}));
}

TEST_F(ProgramTest, LaneOrderNeedsNoEdge) {
  op(a, {}, {all(x)});
  op(a, {all(x)}, {all(y)});
  op(a, {all(y)}, {all(x)});
  EXPECT_TRUE(edges().empty());
}

TEST_F(ProgramTest, ReadersOfTheSameBytesAreFree) {
  const int write = op(c, {}, {all(x)});
  const int one = op(a, {all(x)}, {});
  const int other = op(b, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{one, write, 1}, {other, write, 1}, {write, one, 0}, {write, other, 0}}));
}

TEST_F(ProgramTest, DisjointBytesOfOneBufferAreFree) {
  op(a, {}, {{x, 0, 50, {}}});
  op(b, {}, {{x, 50, 50, {}}});
  EXPECT_TRUE(edges().empty());
}

TEST_F(ProgramTest, OneSharedByteIsAHazard) {
  const int first = op(a, {}, {{x, 0, 51, {}}});
  const int second = op(b, {}, {{x, 50, 50, {}}});
  EXPECT_EQ(edges(), (std::vector<Edge>{{second, first, 1}, {first, second, 0}}));
}

TEST_F(ProgramTest, ALaterPartialWriteHidesOnlyItsBytes) {
  const int whole = op(a, {}, {all(x)});
  const int part = op(b, {}, {{x, 0, 10, {}}});    // after `whole`
  const int reader = op(c, {{x, 0, 20, {}}}, {});  // bytes 0-9 of `part`, which implies `whole` for 10-19
  EXPECT_EQ(edges(), (std::vector<Edge>{{reader, whole, 1}, {whole, part, 0}, {part, reader, 0}}));
}

TEST_F(ProgramTest, ChainsImplyWhatLiesBehindThem) {
  const int first = op(a, {}, {all(x)});
  const int second = op(b, {all(x)}, {all(y)});
  const int third = op(c, {all(x), all(y)}, {});  // first -> third follows from first -> second -> third
  EXPECT_EQ(edges(), (std::vector<Edge>{{third, first, 1}, {first, second, 0}, {second, third, 0}}));
  // third -> second of the next step follows from third -> first -> second.
}

TEST_F(ProgramTest, WaitsOnTheLaunchLaneOrderGpuOpsButNotHostOps) {
  const int write = op(c, {}, {all(x)});
  const int waits = wait(write, 0);
  op(a, {all(x)}, {});  // launched behind the wait: no edge
  const int host = program.add_lane("other host", LaneKind::host);
  const int reader = op(host, {all(x)}, {});
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(edges(), (std::vector<Edge>{{2, write, 1}, {reader, write, 1}, {write, reader, 0}}));
}

TEST_F(ProgramTest, AWaitForTheStepBeforeOrdersAcrossSteps) {
  wait(2, 1);
  op(a, {}, {all(x)});  // op 1: launched when op 2 of the step before has ended
  op(c, {all(x)}, {});
  EXPECT_EQ(edges(), (std::vector<Edge>{{1, 2, 0}}));
}

TEST_F(ProgramTest, WishesAreKeptUnlessImplied) {
  const int first = op(a, {}, {all(x)});
  const int second = op(b, {}, {all(y)});
  const int third = op(c, {}, {});
  program.add_edge(first, second, 0);
  program.add_edge(second, third, 0);
  program.add_edge(first, third, 0);  // implied
  program.add_edge(third, first, 1);
  program.add_edge(third, second, 1);  // implied by third -> first -> second
  EXPECT_EQ(edges(), (std::vector<Edge>{{third, first, 1}, {first, second, 0}, {second, third, 0}}));
}

TEST_F(ProgramTest, AnOpDoesNotWaitForItself) {
  op(a, {all(x)}, {all(x)});
  EXPECT_TRUE(edges().empty());
}

}  // namespace
}  // namespace penstock
