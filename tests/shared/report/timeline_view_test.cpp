#include "shared/report/timeline_view.h"

#include <gtest/gtest.h>

#include "tests/shared/compare/example.h"
#include "tests/shared/report/packed.h"

namespace penstock {
namespace {

TimelineSide side(const std::string& label, const Schedule& schedule, const Timeline& timeline, double step) {
  return {label, label, &schedule, &timeline, schedule_memory(schedule), step};
}

TEST(TimelineView, BarsAreThoseOfTheDrawnSteps) {
  const Schedule schedule = example_schedule();
  const Timeline timeline = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(6, {3, 2, 5}));
  ReportPage page("", "");
  const SidesMemory memory = add_timelines(page, {side("predicted", schedule, timeline, 10)});
  const nlohmann::json data = data_of(page.html());
  EXPECT_DOUBLE_EQ(data.at("end"), 30);  // three periods from the end of the first backward
  EXPECT_EQ(data.at("sides").at(0).at("boundaries"), nlohmann::json({0.0, 10.0, 20.0, 30.0}));
  const std::vector<UnpackedBar> compute = unpacked_bars(data, 0, 0), loads = unpacked_bars(data, 0, 1);
  ASSERT_EQ(compute.size(), 6u);  // forward and backward of three steps
  ASSERT_EQ(loads.size(), 3u);
  EXPECT_EQ(compute[1].op, 2);
  EXPECT_NEAR(compute[1].start, 5, 1e-6);
  EXPECT_NEAR(compute[1].end, 10, 1e-6);
  EXPECT_EQ(compute[2].op, 1);
  EXPECT_NEAR(loads[2].start, 20, 1e-6);
  EXPECT_EQ(loads[2].count, 1u);
  // Names come back from kinds and numbers: "load ?" with 1.
  const nlohmann::json& kinds = data.at("schedules").at(0).at("kinds");
  EXPECT_EQ(kinds.at(1).at("name"), "forward \1 #\1");
  EXPECT_EQ(packed_numbers(data.at("schedules").at(0).at("ops")), (std::vector<std::uint64_t>{0, 1, 1, 1, 0, 2, 1, 0}));
  // The slot of 1024 bytes is live all the time; the table gets the same peak.
  EXPECT_EQ(memory.at(0).at(0).peak_bytes, 1024);
  EXPECT_EQ(packed_numbers(data.at("sides").at(0).at("memory").at(0).at("curve")).at(1), 2048u);  // zigzag of 1024
}

TEST(TimelineView, DigitsThatAreNoPlainNumberStayText) {
  Schedule schedule = example_schedule();
  schedule.ops[0].name = "load 007 of 12345678901";
  const Timeline timeline = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(4, {3, 2, 5}));
  ReportPage page("", "");
  add_timelines(page, {side("predicted", schedule, timeline, 10)});
  EXPECT_EQ(data_of(page.html()).at("schedules").at(0).at("kinds").at(0).at("name"), "load 007 of 12345678901");
}

TEST(TimelineView, TwoSchedulesHaveTheirLanesSideBySide) {
  const Schedule first = example_schedule();
  Schedule second = example_schedule();
  second.lanes[1].name = "copy";
  const Timeline one = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(4, {3, 2, 5}));
  const Timeline other = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(4, {3, 2, 7}));
  ReportPage page("", "");
  add_timelines(page, {side("A", first, one, 10), side("B", second, other, 12)});
  const nlohmann::json data = data_of(page.html());
  EXPECT_EQ(data.at("lanes"), nlohmann::json({"compute", "h2d", "copy"}));
  EXPECT_EQ(data.at("schedules").size(), 2u);
  EXPECT_EQ(data.at("sides").at(1).at("schedule"), 1);
  EXPECT_DOUBLE_EQ(data.at("end"), 36);  // of the longer steps
}

/// A step of `pairs` short ops on compute behind one load.
Schedule many_ops(int pairs) {
  Schedule schedule = example_schedule();
  schedule.ops.resize(1);
  for (int i = 0; i < pairs; ++i) {
    Op op = example_schedule().ops[1];
    op.id = static_cast<int>(schedule.ops.size());
    op.micro_batch = i;
    op.name = "forward 1 #" + std::to_string(i);
    schedule.ops.push_back(op);
  }
  schedule.edges.clear();
  return schedule;
}

TEST(TimelineView, AHugeStepIsDrawnOnceWithNeighboursJoinedAndSaysSo) {
  constexpr int kOps = 400'000;
  const Schedule schedule = many_ops(kOps);
  Timeline timeline;
  timeline.steps = 3;
  double now = 0;
  for (int step = 0; step < 3; ++step)
    for (const Op& op : schedule.ops) {
      timeline.ops.push_back({step, op.id, now, now + 20e-6});
      now += 25e-6;
    }
  ReportPage page("", "");
  add_timelines(page, {side("predicted", schedule, timeline, 10)});
  const std::string html = page.html();
  EXPECT_LT(html.size(), 4u << 20);
  const nlohmann::json data = data_of(html);
  std::uint64_t ops = 0;
  const std::vector<UnpackedBar> bars = unpacked_bars(data, 0, 0);
  for (const UnpackedBar& bar : bars) ops += bar.count;
  EXPECT_LE(bars.size(), kMostBars);
  EXPECT_NEAR(static_cast<double>(ops), kOps, 2);  // none is lost
  const std::string left_out = data.at("left_out");
  EXPECT_NE(left_out.find("Drawn: one step"), std::string::npos) << left_out;
  EXPECT_NE(left_out.find("are drawn as one"), std::string::npos) << left_out;
}

}  // namespace
}  // namespace penstock
