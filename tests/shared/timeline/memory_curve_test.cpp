#include "shared/timeline/memory_curve.h"

#include <gtest/gtest.h>

#include "tests/shared/compare/example.h"

namespace penstock {
namespace {

using Curve = std::vector<MemoryPoint>;

TEST(MemoryCurve, LiveFromTheWriteToTheLastRead) {
  // Two steps of load 3, forward 2, backward 5 s, a second of nothing between them.
  Timeline timeline = example_timeline(TimelineSource::measured, 0, {{3, 2, 5}, {3, 2, 5}});
  for (std::size_t i = 3; i < 6; ++i) {
    timeline.ops[i].start += 1;
    timeline.ops[i].end += 1;
  }
  const std::vector<Curve> curves = memory_curves(example_schedule(), timeline);
  ASSERT_EQ(curves.size(), 2u);
  // The slot of 1024 bytes is written by the load (0 to 3 s) and read last by the backward, which ends after 10 s.
  EXPECT_EQ(curves[0], (Curve{{0, 1024}, {10, 0}, {11, 1024}, {21, 0}}));
  // The weights at home are state: always there.
  EXPECT_EQ(curves[1], (Curve{{0, 1024}}));
}

TEST(MemoryCurve, WrittenAnewIsAnotherLife) {
  // The backward also writes 24 bytes of scratch behind the slot, and the forward wrote the same ones before: two
  // lives.
  Schedule schedule = example_schedule();
  schedule.buffers.push_back({"scratch", 0, 1024, 24});
  const Access scratch{2, 0, 24, {}};
  schedule.ops[1].writes = {scratch};
  schedule.ops[2].writes = {scratch};
  const Timeline timeline = example_timeline(TimelineSource::measured, 0, {{3, 2, 5}});
  EXPECT_EQ(memory_curves(schedule, timeline)[0], (Curve{{0, 1024}, {3, 1048}, {5, 1048}, {10, 0}}));
  // Read and written by the same op, as a sum in place is: one life, from the forward's start to the backward's end.
  schedule.ops[2].reads.push_back(scratch);
  EXPECT_EQ(memory_curves(schedule, timeline)[0], (Curve{{0, 1024}, {3, 1048}, {10, 0}}));
}

TEST(MemoryCurve, ClocksThatDisagreeCountNoByteTwice) {
  // The second step's load seems to begin a second before the first step's backward, the last reader, has ended.
  Timeline timeline = example_timeline(TimelineSource::measured, 0, {{3, 2, 5}, {3, 2, 5}});
  for (std::size_t i = 3; i < 6; ++i) {
    timeline.ops[i].start -= 1;
    timeline.ops[i].end -= 1;
  }
  EXPECT_EQ(memory_curves(example_schedule(), timeline)[0], (Curve{{0, 1024}, {9, 1024}, {19, 0}}));
  // The same within a step: the backward writes the forward's scratch anew half a second before the forward has ended.
  Schedule schedule = example_schedule();
  schedule.buffers.push_back({"scratch", 0, 1024, 24});
  schedule.ops[1].writes = schedule.ops[2].writes = {{2, 0, 24, {}}};
  timeline = example_timeline(TimelineSource::measured, 0, {{3, 2, 5}});
  timeline.ops[2].start -= 0.5;
  EXPECT_EQ(memory_curves(schedule, timeline)[0], (Curve{{0, 1024}, {3, 1048}, {4.5, 1048}, {10, 0}}));
}

TEST(MemoryCurve, PeaksOfAPartAndOfItsPhases) {
  // Load 0 to 3 s, forward to 5 s (with 24 bytes of scratch), backward to 10 s; then the same again.
  Schedule schedule = example_schedule();
  schedule.buffers.push_back({"scratch", 0, 1024, 24});
  schedule.ops[1].writes = {{2, 0, 24, {}}};
  const Timeline timeline = example_timeline(TimelineSource::measured, 0, {{3, 2, 5}, {3, 2, 5}});
  const LiveMemory whole = live_memory(schedule, timeline, 0, 20)[0];
  EXPECT_EQ(whole.peak_bytes, 1048);
  EXPECT_EQ(whole.peak_seconds, 3);
  EXPECT_EQ(whole.phase_bytes, (std::array<double, 4>{1048, 0, 1024, 0}));  // load and forward are phase forward
  // Within the backward of the first step nothing but the slot is live.
  const LiveMemory part = live_memory(schedule, timeline, 6, 9)[0];
  EXPECT_EQ(part.curve, (Curve{{6, 1024}}));
  EXPECT_EQ(part.peak_bytes, 1024);
  EXPECT_EQ(part.phase_bytes, (std::array<double, 4>{0, 0, 1024, 0}));
  // The weights at home are always there.
  EXPECT_EQ(live_memory(schedule, timeline, 6, 9)[1].peak_bytes, 1024);
}

TEST(MemoryCurve, ThinningKeepsPeaks) {
  const Curve curve{{0, 1}, {1, 9}, {2, 1}, {3, 2}, {4, 2}, {5, 7}, {6, 3}, {8, 0}};
  // Two slices of 4 s; the last point belongs to the second.
  EXPECT_EQ(thinned(curve, 2), (Curve{{0, 9}, {4, 7}}));
  EXPECT_EQ(thinned(curve, 8), curve);
}

}  // namespace
}  // namespace penstock
