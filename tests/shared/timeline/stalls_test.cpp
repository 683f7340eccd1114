// Timelines written by hand; each states why compute stood idle and how its idle time divides.
#include "shared/timeline/stalls.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/shared/timeline/tiny_schedule.h"

namespace penstock::test {
namespace {

struct Span {
  int op;
  double start, end;
};

/// Two steps: step 0 is only the boundary (op `last` ends at 0), step 1 is `spans`.
Timeline one_period(const TinySchedule& tiny, int last, const std::vector<Span>& spans,
                    TimelineSource source = TimelineSource::predicted, const std::vector<Span>& before = {}) {
  Timeline timeline;
  timeline.source = source;
  timeline.steps = 2;
  const auto add_step = [&](int step, const std::vector<Span>& list) {
    for (int op = 0; op < static_cast<int>(tiny.schedule.ops.size()); ++op)
      for (const Span& span : list)
        if (span.op == op) timeline.ops.push_back({step, op, span.start, span.end});
  };
  std::vector<Span> first = before;
  first.push_back({last, -1, 0});
  add_step(0, first);
  add_step(1, spans);
  return timeline;
}

double part(const StallReport& report, StallCause cause) { return report.by_cause[static_cast<std::size_t>(cause)]; }

void expect_adds_up(const StallReport& report) {
  EXPECT_NEAR(std::accumulate(report.by_cause.begin(), report.by_cause.end(), 0.0), report.total_seconds, 1e-12);
}

// Compute is idle from 0 to 3 while the weights of the first layer arrive, then from 5 to 6.
TEST(Stalls, AnUploadOfWeightsIsWeights) {
  TinySchedule tiny;
  const int up0 = tiny.upload("up 0", TensorKind::weights), up1 = tiny.upload("up 1", TensorKind::weights);
  const int one = tiny.compute("one"), two = tiny.compute("two", Pass::backward);
  tiny.after(one, {up0});
  tiny.after(two, {up1});
  const StallReport report =
      attribute_stalls(tiny.schedule, one_period(tiny, two, {{up0, 0, 3}, {up1, 3, 6}, {one, 3, 5}, {two, 6, 8}}));
  EXPECT_EQ(report.total_seconds, 4);
  EXPECT_EQ(part(report, StallCause::weights), 4);
  expect_adds_up(report);
}

// A chain of three: the upload (5 to 6) waited for Adam (2 to 5), which waited for the gradient's download (0 to
// 2).
TEST(Stalls, AnUploadThatWaitedForAdamThatWaitedForAGradientHasThreeParts) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  const int down = tiny.download("down", TensorKind::gradient);
  const int adam = tiny.op("adam", TinySchedule::kHost, OptimizerWork{1, 1});
  tiny.after(one, {up});
  tiny.after(down, {one});
  tiny.after(adam, {down});
  tiny.after_previous_step(up, {adam});
  const Timeline timeline = one_period(tiny, one, {{up, 5, 6}, {one, 6, 9}, {down, 9, 11}, {adam, 11, 14}},
                                       TimelineSource::predicted, {{down, 0, 2}, {adam, 2, 5}});
  const StallReport report = attribute_stalls(tiny.schedule, timeline);
  EXPECT_EQ(report.total_seconds, 6);
  EXPECT_EQ(part(report, StallCause::weights), 1);
  EXPECT_EQ(part(report, StallCause::optimizer), 3);
  EXPECT_EQ(part(report, StallCause::gradient_slab), 2);
  expect_adds_up(report);
}

// The upload began before compute fell idle: only what lies in the idle interval counts, and nothing before it.
TEST(Stalls, OnlyTheIdleIntervalIsDivided) {
  TinySchedule tiny;
  const int adam = tiny.op("adam", TinySchedule::kHost, OptimizerWork{1, 1});
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one"), two = tiny.compute("two", Pass::backward);
  tiny.after(up, {adam});
  tiny.after(two, {up});
  // Idle from 4 to 5: the upload runs from 2 to 5, Adam from 0 to 2.
  const StallReport report =
      attribute_stalls(tiny.schedule, one_period(tiny, two, {{adam, 0, 2}, {up, 2, 5}, {one, 0, 4}, {two, 5, 6}}));
  EXPECT_EQ(report.total_seconds, 1);
  EXPECT_EQ(part(report, StallCause::weights), 1);
  EXPECT_EQ(part(report, StallCause::optimizer), 0);
}

struct CauseCase {
  const char* name;
  StallCause cause;
  int (*add)(TinySchedule&);
};

// One op of each kind holds compute from 0 to 2.
TEST(Stalls, TheBindingOpDecidesTheCause) {
  const CauseCase cases[] = {
      {"weights from DRAM", StallCause::weights, [](TinySchedule& t) { return t.upload("x", TensorKind::weights); }},
      {"moments for an optimizer on the GPU", StallCause::optimizer,
       [](TinySchedule& t) { return t.upload("x", TensorKind::moment_m); }},
      {"updated weights on their way back", StallCause::optimizer,
       [](TinySchedule& t) { return t.download("x", TensorKind::weights); }},
      {"gradient leaving", StallCause::gradient_slab,
       [](TinySchedule& t) { return t.download("x", TensorKind::gradient_part); }},
      {"gradient coming back for the optimizer", StallCause::optimizer,
       [](TinySchedule& t) { return t.upload("x", TensorKind::gradient); }},
      {"boundary leaving", StallCause::buffer, [](TinySchedule& t) { return t.download("x", TensorKind::boundary); }},
      {"kept leaving", StallCause::buffer, [](TinySchedule& t) { return t.download("x", TensorKind::kept); }},
      {"kept coming back", StallCause::activation, [](TinySchedule& t) { return t.upload("x", TensorKind::kept); }},
      {"tokens", StallCause::input, [](TinySchedule& t) { return t.upload("x", TensorKind::tokens); }},
      {"input", StallCause::input, [](TinySchedule& t) { return t.op("x", TinySchedule::kHost, InputWork{}); }},
      {"host sum", StallCause::gradient_slab,
       [](TinySchedule& t) {
         return t.op("x", TinySchedule::kHost, AccumulateWork{1, 1});
       }},
      {"norm", StallCause::optimizer,
       [](TinySchedule& t) {
         return t.op("x", TinySchedule::kHost, FinishGradientWork{1, 1});
       }},
      {"scalars", StallCause::optimizer,
       [](TinySchedule& t) { return t.op("x", TinySchedule::kHost, StepScalarsWork{}); }},
      {"host pass", StallCause::optimizer,
       [](TinySchedule& t) {
         return t.op("x", TinySchedule::kHost, HostPassWork{1, 1});
       }},
      {"gradient to NVMe", StallCause::nvme,
       [](TinySchedule& t) {
         return t.copy("x", t.add_lane("nvme write", LaneKind::nvme_write), 1, 2, TensorKind::gradient);
       }},
      {"moments to NVMe", StallCause::nvme,
       [](TinySchedule& t) {
         return t.copy("x", t.add_lane("nvme write", LaneKind::nvme_write), 1, 2, TensorKind::moment_m);
       }},
      {"weights from NVMe", StallCause::nvme,
       [](TinySchedule& t) {
         return t.copy("x", t.add_lane("nvme read", LaneKind::nvme_read), 2, 1, TensorKind::weights);
       }},
  };
  for (const CauseCase& each : cases) {
    TinySchedule tiny;
    const int held = each.add(tiny);
    const int one = tiny.compute("one", Pass::backward);
    tiny.after(one, {held});
    const StallReport report = attribute_stalls(tiny.schedule, one_period(tiny, one, {{held, 0, 2}, {one, 2, 3}}));
    EXPECT_EQ(report.total_seconds, 2) << each.name;
    EXPECT_EQ(part(report, each.cause), 2) << each.name << " should be " << stall_cause_name(each.cause);
  }
}

// Predicted: everything the op needs is there at 0, it starts at 1: it had not been launched.
// Measured without waits: the same gap is signalling.
TEST(Stalls, AGapBehindAllDependenciesIsLaunchOrOverhead) {
  TinySchedule tiny;
  const int one = tiny.compute("one", Pass::backward);
  const auto report = [&](TimelineSource source) {
    return attribute_stalls(tiny.schedule, one_period(tiny, one, {{one, 1, 2}}, source));
  };
  EXPECT_EQ(part(report(TimelineSource::predicted), StallCause::launch), 1);
  EXPECT_EQ(part(report(TimelineSource::measured), StallCause::overhead), 1);
}

// Nobody launches a host op: that it begins at 2, though nothing is in its way, is overhead in a prediction too.
TEST(Stalls, AHostOpThatBeginsLateWasNotLaunchedLate) {
  TinySchedule tiny;
  const int adam = tiny.op("adam", TinySchedule::kHost, OptimizerWork{1, 1});
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {adam});
  const StallReport report =
      attribute_stalls(tiny.schedule, one_period(tiny, one, {{adam, 2, 4}, {one, 4, 5}}, TimelineSource::predicted));
  EXPECT_EQ(part(report, StallCause::optimizer), 2);
  EXPECT_EQ(part(report, StallCause::overhead), 2);
  EXPECT_EQ(part(report, StallCause::launch), 0);
}

// The launch thread waits for the report (0 to 2) and launches the layer only then, though the weights were there at 1.
// 0 to 1 is weights, 1 to 2 launch; measured, the quarter second until the op starts is overhead.
TEST(Stalls, AWaitCostsOnlyWhatTheDataDidNot) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int report_op = tiny.op("report", TinySchedule::kHost, ReportWork{});
  const int wait = tiny.op("wait", TinySchedule::kLaunch, WaitWork{report_op, 0});
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  const Timeline timeline =
      one_period(tiny, one, {{up, 0, 1}, {report_op, 0, 2}, {wait, 0, 2}, {one, 2.25, 3}}, TimelineSource::measured);
  const StallReport report = attribute_stalls(tiny.schedule, timeline);
  EXPECT_EQ(report.total_seconds, 2.25);
  EXPECT_EQ(part(report, StallCause::weights), 1);
  EXPECT_EQ(part(report, StallCause::launch), 1);
  EXPECT_EQ(part(report, StallCause::overhead), 0.25);
}

// A system that waits on the host for the same upload that the layer needs anyway: that is weights, not launch.
TEST(Stalls, AWaitForTheSameUploadIsWeights) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int wait = tiny.op("wait", TinySchedule::kLaunch, WaitWork{up, 0});
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  const StallReport report =
      attribute_stalls(tiny.schedule, one_period(tiny, one, {{up, 0, 2}, {wait, 0, 2}, {one, 2, 3}}));
  EXPECT_EQ(part(report, StallCause::weights), 2);
  EXPECT_EQ(part(report, StallCause::launch), 0);
}

// Measured clocks are not perfect: the upload seems to end 3 us after the layer that needs it began. It cannot have
// held the layer longer than until its start.
TEST(Stalls, APredecessorThatSeemsToEndLateIsCut) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  const StallReport report = attribute_stalls(
      tiny.schedule, one_period(tiny, one, {{up, 0.5, 2.000003}, {one, 2, 3}}, TimelineSource::measured));
  EXPECT_EQ(report.total_seconds, 2);
  EXPECT_EQ(part(report, StallCause::weights), 1.5);
  EXPECT_EQ(part(report, StallCause::overhead), 0.5);  // nothing ran before the upload
  expect_adds_up(report);
}

// An optimizer's own GPU lane, listed first, is not the one whose stalls count.
TEST(Stalls, ComputeIsTheLaneOfTheLastBackward) {
  TinySchedule tiny;
  const int lane = tiny.add_lane("second", LaneKind::gpu_compute);
  const int adam = tiny.op("adam", TinySchedule::kCompute, OptimizerWork{1, 1});
  const int one = tiny.op("one", lane, TemplateWork{LayerKind::decoder, Pass::backward, Keep::input});
  tiny.after(one, {adam});
  const StallReport report = attribute_stalls(tiny.schedule, one_period(tiny, one, {{adam, 0, 2}, {one, 2, 5}}));
  EXPECT_EQ(report.total_seconds, 2);
  EXPECT_EQ(part(report, StallCause::optimizer), 2);
}

// Three steps, two periods: idle 1 in the first, 2 in the second: 1.5 per step.
TEST(Stalls, ReportsTheMeanPerStep) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  Timeline timeline;
  timeline.steps = 3;
  timeline.ops = {{0, up, -3, -1}, {0, one, -1, 0}, {1, up, 0, 1}, {1, one, 1, 4}, {2, up, 4, 6}, {2, one, 6, 9}};
  const StallReport report = attribute_stalls(tiny.schedule, timeline);
  EXPECT_EQ(report.total_seconds, 1.5);
  EXPECT_EQ(part(report, StallCause::weights), 1.5);
}

// A file may leave out what it likes. The upload of step 900 000 was not recorded, so nothing is known of what ran
// before the layer; nor does a gap of so many steps cost anything.
TEST(Stalls, WhatWasNotRecordedIsOverhead) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  Timeline timeline;
  timeline.source = TimelineSource::measured;
  timeline.steps = 900'001;
  timeline.ops = {{0, up, -3, -1}, {0, one, -1, 0}, {900'000, one, 1, 4}, {900'000, 77, 0, 9}};
  const StallReport report = attribute_stalls(tiny.schedule, timeline);
  EXPECT_EQ(report.total_seconds, 1);
  EXPECT_EQ(part(report, StallCause::overhead), 1);
}

TEST(Stalls, AnEmptyTimelineHasNone) {
  TinySchedule tiny;
  tiny.compute("one");
  EXPECT_EQ(attribute_stalls(tiny.schedule, Timeline{}).total_seconds, 0);
  EXPECT_TRUE(critical_path(tiny.schedule, Timeline{}).empty());
  EXPECT_EQ(lane_busy_seconds(tiny.schedule, Timeline{})[0], 0);
}

// The step of 9 is download 2, Adam 3, upload 1, layer 3; the input that runs beside is not on the path.
TEST(CriticalPath, IsTheChainThatEndsTheStep) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  const int down = tiny.download("down", TensorKind::gradient);
  const int adam = tiny.op("adam", TinySchedule::kHost, OptimizerWork{1, 1});
  const int input = tiny.op("input", tiny.add_lane("input", LaneKind::host), InputWork{});
  tiny.after(one, {up, input});
  tiny.after(down, {one});
  tiny.after(adam, {down});
  tiny.after_previous_step(up, {adam});
  const Timeline timeline =
      one_period(tiny, one, {{up, 5, 6}, {one, 6, 9}, {down, 9, 11}, {adam, 11, 14}, {input, 0, 4}},
                 TimelineSource::predicted, {{down, 0, 2}, {adam, 2, 5}});
  const std::vector<CriticalPart> path = critical_path(tiny.schedule, timeline);
  ASSERT_EQ(path.size(), 4u);
  const int ops[] = {down, adam, up, one};
  const double seconds[] = {2, 3, 1, 3};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(path[i].op, ops[i]);
    EXPECT_EQ(path[i].seconds, seconds[i]);
  }
}

// Periods of 5 and 7: the path is that of the last one, and ends where it began.
TEST(CriticalPath, CoversTheLastPeriodAlone) {
  TinySchedule tiny;
  const int up = tiny.upload("up", TensorKind::weights);
  const int one = tiny.compute("one", Pass::backward);
  tiny.after(one, {up});
  tiny.after_previous_step(up, {one});
  Timeline timeline;
  timeline.steps = 3;
  timeline.ops = {{0, up, 0, 1}, {0, one, 1, 4}, {1, up, 4, 6}, {1, one, 6, 9}, {2, up, 9, 12}, {2, one, 12, 16}};
  const std::vector<CriticalPart> path = critical_path(tiny.schedule, timeline);
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(path[0].op, up);
  EXPECT_EQ(path[0].seconds, 3);
  EXPECT_EQ(path[1].op, one);
  EXPECT_EQ(path[1].seconds, 4);
}

// Three boundaries, two periods: those of steps 1 and 2. An input that ran long before its step's period still counts
// for it.
TEST(LaneBusy, IsTheMeanOverTheSteadySteps) {
  TinySchedule tiny;
  const int input = tiny.op("input", TinySchedule::kHost, InputWork{});
  const int one = tiny.compute("one", Pass::backward);
  Timeline timeline;
  timeline.steps = 3;
  timeline.ops = {{0, input, -9, -2}, {0, one, -1, 0},   {1, input, -2, -1},
                  {1, one, 1, 4},     {2, input, -1, 2}, {2, one, 6, 11}};
  const std::vector<double> busy = lane_busy_seconds(tiny.schedule, timeline);
  EXPECT_EQ(busy[TinySchedule::kCompute], 4);  // (3 + 5) / 2
  EXPECT_EQ(busy[TinySchedule::kHost], 2);     // (1 + 3) / 2
  EXPECT_EQ(busy[TinySchedule::kD2h], 0);
}

}  // namespace
}  // namespace penstock::test
