#include "shared/compare/comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/shared/compare/example.h"
#include "tests/shared/error_text.h"

namespace penstock {
namespace {

const std::vector<ExampleStep> kPredicted(4, {3, 2, 5});
// The first one is warm-up and must not count; its end begins the first of four steady periods.
const std::vector<ExampleStep> kMeasured{{20, 20, 20}, {4, 2, 6}, {4, 2, 6}, {4, 2, 6}, {4, 2, 6}};

Timeline predicted() {
  Timeline timeline = example_timeline(TimelineSource::predicted, 0, kPredicted);
  timeline.peaks = {{TierKind::hbm, 1100}, {TierKind::dram, 1024}};
  return timeline;
}

Timeline measured() {
  Timeline timeline = example_timeline(TimelineSource::measured, 1, kMeasured);
  timeline.peaks = {{TierKind::hbm, 1000}};
  return timeline;
}

Comparison comparison() { return compare_timelines(example_schedule(), predicted(), measured()); }

std::string error_of(const Timeline& first, const Timeline& second) {
  return error_text([&] { compare_timelines(example_schedule(), first, second); });
}

TEST(Comparison, ErrorsAreSharesOfTheMeasuredStep) {
  const Comparison result = comparison();
  // One chain: a step takes load + forward + backward, 3 + 2 + 5 = 10 s predicted, 4 + 2 + 6 = 12 s measured.
  EXPECT_DOUBLE_EQ(result.step_seconds.predicted, 10);
  EXPECT_DOUBLE_EQ(result.step_seconds.measured, 12);
  EXPECT_DOUBLE_EQ(result.step_error, 2.0 / 12);
  // Compute idles while the load runs, and the cause is the weights: 3 s of 10 and 4 s of 12.
  EXPECT_NEAR(result.stall_seconds.predicted, 3, 1e-9);
  EXPECT_NEAR(result.stall_seconds.measured, 4, 1e-9);
  EXPECT_NEAR(result.stall_error, 1.0 / 12, 1e-9);
  const Pair& weights = result.stall_by_cause[static_cast<std::size_t>(StallCause::weights)];
  EXPECT_NEAR(weights.predicted, 3, 1e-9);
  EXPECT_NEAR(weights.measured, 4, 1e-9);
}

TEST(Comparison, LanesAndPhases) {
  const Comparison result = comparison();
  ASSERT_EQ(result.lanes.size(), 2u);
  EXPECT_EQ(result.lanes[0].lane, "compute");
  EXPECT_NEAR(result.lanes[0].busy_seconds.predicted, 7, 1e-9);
  EXPECT_NEAR(result.lanes[0].busy_seconds.measured, 8, 1e-9);
  EXPECT_NEAR(result.lanes[0].error, 1.0 / 12, 1e-9);
  EXPECT_EQ(result.lanes[1].lane, "h2d");
  EXPECT_NEAR(result.lanes[1].error, 1.0 / 12, 1e-9);
  // Compute lane only: the load belongs to the forward phase but not to compute.
  EXPECT_DOUBLE_EQ(result.phase_seconds[0].predicted, 2);
  EXPECT_DOUBLE_EQ(result.phase_seconds[0].measured, 2);
  EXPECT_DOUBLE_EQ(result.phase_seconds[2].predicted, 5);
  EXPECT_DOUBLE_EQ(result.phase_seconds[2].measured, 6);
}

TEST(Comparison, OnlyTiersThatBothTimelinesKnow) {
  const Comparison result = comparison();
  ASSERT_EQ(result.tiers.size(), 1u);  // the measured side does not know DRAM: 0 would be a lie
  EXPECT_EQ(result.tiers[0].tier, TierKind::hbm);
  EXPECT_DOUBLE_EQ(result.tiers[0].peak_bytes.difference(), 100);
}

TEST(Comparison, WorstOpsLargestFirstTiesById) {
  const Comparison result = comparison();
  ASSERT_EQ(result.worst_ops.size(), 2u);  // the forward is predicted to the point
  EXPECT_EQ(result.worst_ops[0].op, 0);    // load and backward are both 1 s short; the smaller id comes first
  EXPECT_EQ(result.worst_ops[1].op, 2);
  EXPECT_DOUBLE_EQ(result.worst_ops[1].share_of_step, -1.0 / 12);  // signed: predicted less than measured
}

TEST(Comparison, WorstOpsBySizeWhateverTheSign) {
  // Measured 4, 2 and 6 s: the load is 2 s short, the backward 1 s long.
  const Timeline timeline = example_timeline(TimelineSource::predicted, 0, std::vector<ExampleStep>(6, {2, 2, 7}));
  const Comparison result = compare_timelines(example_schedule(), timeline, measured());
  ASSERT_EQ(result.worst_ops.size(), 2u);
  EXPECT_EQ(result.worst_ops[0].op, 0);
  EXPECT_EQ(result.worst_ops[1].op, 2);
}

TEST(Comparison, OfSeveralDevicesTheFullestCounts) {
  Timeline timeline = predicted();
  timeline.peaks = {{TierKind::hbm, 1100}, {TierKind::hbm, 900}};
  const Comparison result = compare_timelines(example_schedule(), timeline, measured());
  ASSERT_EQ(result.tiers.size(), 1u);
  EXPECT_DOUBLE_EQ(result.tiers[0].peak_bytes.predicted, 1100);
}

TEST(Comparison, OneOutlierMovesNoMedian) {
  std::vector<ExampleStep> steps(6, {4, 2, 6});
  steps[3].backward = 9;  // periods 12, 12, 15, 12, 12
  const Comparison result =
      compare_timelines(example_schedule(), predicted(), example_timeline(TimelineSource::measured, 0, steps));
  EXPECT_DOUBLE_EQ(result.step_seconds.measured, 12);
  EXPECT_DOUBLE_EQ(result.worst_ops[1].seconds.measured, 6);
  EXPECT_DOUBLE_EQ(result.measured_spread, 3.0 / 12);
  EXPECT_EQ(result.measured_periods, 5);
}

TEST(Comparison, PredictedPatternIsAveraged) {
  // Steps that alternate, 10 s and 14 s: five periods from the end of the first, 14 10 14 10 14.
  std::vector<ExampleStep> steps(6, {3, 2, 5});
  for (const std::size_t i : {1u, 3u, 5u}) steps[i].load = 7;
  const Comparison result =
      compare_timelines(example_schedule(), example_timeline(TimelineSource::predicted, 0, steps), measured());
  EXPECT_DOUBLE_EQ(result.step_seconds.predicted, 62.0 / 5);
}

TEST(Comparison, WaitsAreNoErrorOfTheirOwn) {
  // A launch lane that waits for the load: what it waits is the load's time over again.
  Schedule schedule = example_schedule();
  schedule.lanes.push_back({"launch", LaneKind::launch, 0});
  schedule.ops.push_back({3, "wait for load 1", 2, -1, -1, Phase::forward, WaitWork{0, 0}, {}, {}});
  const auto with_wait = [&](Timeline timeline, double seconds) {
    std::vector<OpTime> ops;
    for (const OpTime& time : timeline.ops) {
      ops.push_back(time);
      if (time.op == 2) ops.push_back({time.step, 3, time.end, time.end + seconds});
    }
    timeline.ops = ops;
    timeline.schedule_hash = schedule_hash(schedule);
    return timeline;
  };
  const Comparison result = compare_timelines(schedule, with_wait(predicted(), 0), with_wait(measured(), 2));
  EXPECT_EQ(result.lanes.size(), 2u);
  EXPECT_EQ(result.worst_ops.size(), 2u);
}

TEST(Comparison, RefusesAnotherSchedule) {
  Timeline other = measured();
  other.schedule_hash = "0123456789abcdef";
  const std::string error = error_of(predicted(), other);
  EXPECT_NE(error.find("the measured timeline is of schedule 0123456789abcdef"), std::string::npos) << error;
}

TEST(Comparison, RefusesSwappedTimelines) {
  const std::string error = error_of(measured(), predicted());
  EXPECT_NE(error.find("the first timeline was measured"), std::string::npos) << error;
}

TEST(Comparison, RefusesTooFewSteps) {
  const std::string error = error_of(predicted(), example_timeline(TimelineSource::measured, 1, {{4, 2, 6}}));
  EXPECT_NE(error.find("has no steady period (1 steps recorded, 1 of them warm-up)"), std::string::npos) << error;
}

TEST(Comparison, OfOneMeasuredStepSaysThatItsSpreadIsNotKnown) {
  const Timeline one = example_timeline(TimelineSource::measured, 1, {{4, 2, 6}, {4, 2, 6}});
  const Comparison result = compare_timelines(example_schedule(), predicted(), one);
  EXPECT_EQ(result.measured_periods, 1);
  EXPECT_DOUBLE_EQ(result.step_seconds.measured, 12);
  const std::string text = comparison_text(example_schedule(), result);
  EXPECT_NE(text.find("one step was measured, so that no spread is known"), std::string::npos) << text;
}

TEST(Comparison, NamesTheOpThatIsMissing) {
  Timeline holed = measured();
  std::erase_if(holed.ops, [](const OpTime& time) { return time.step == 5 && time.op == 2; });
  const std::string error = error_of(predicted(), holed);
  EXPECT_NE(error.find("lacks op 2 (\"backward 1 #0\") in step 5"), std::string::npos) << error;
}

TEST(Comparison, NamesAnOpThatTheScheduleLacks) {
  Timeline extra = measured();
  extra.ops.push_back({7, 3, 100, 101});
  const std::string error = error_of(predicted(), extra);
  EXPECT_NE(error.find("has an op 3 in step 7, but the schedule has 3 ops"), std::string::npos) << error;
}

TEST(ComparisonText, SaysEverythingButZeros) {
  // Bytes: the error is of the measured bytes, not of the step. Causes and phases of 0 s on both sides are left out.
  EXPECT_EQ(comparison_text(example_schedule(), comparison()),
            "                 predicted  measured     error\n"
            "step                  10 s      12 s  -16.67 %\n"
            "stall                  3 s       4 s   -8.33 %\n"
            "  weights              3 s       4 s   -8.33 %\n"
            "busy\n"
            "  compute              7 s       8 s   -8.33 %\n"
            "  h2d                  3 s       4 s   -8.33 %\n"
            "compute by phase\n"
            "  forward              2 s       2 s    0.00 %\n"
            "  backward             5 s       6 s   -8.33 %\n"
            "arena (error of the measured bytes)\n"
            "  hbm             1.07 KiB    1000 B  +10.00 %\n"
            "ops that contribute most to the error\n"
            "  load 1               3 s       4 s   -8.33 %\n"
            "  backward 1 #0        5 s       6 s   -8.33 %\n"
            "\n"
            "step error 16.67 %, stall error 8.33 % of the measured step; measured steps spread over 0.00 %\n"
            "Errors of times are signed shares of the measured step.\n"
            "Only 4 measured periods: take at least 5 before trusting the errors.\n");
}

TEST(ComparisonJson, HasTheDocumentedKeys) {
  const nlohmann::json json = nlohmann::json::parse(comparison_json(example_schedule(), comparison()));
  EXPECT_EQ(json.at("format"), "penstock-comparison/1");
  EXPECT_EQ(json.at("schedule"), schedule_hash(example_schedule()));
  EXPECT_DOUBLE_EQ(json.at("step_error"), 2.0 / 12);
  EXPECT_NEAR(json.at("stall_error").get<double>(), 1.0 / 12, 1e-9);
  EXPECT_DOUBLE_EQ(json.at("step_seconds").at("measured"), 12);
  EXPECT_EQ(json.at("lanes").at(0).at("lane"), "compute");
  EXPECT_NEAR(json.at("lanes").at(0).at("error").get<double>(), 1.0 / 12, 1e-9);
  EXPECT_NEAR(json.at("stall_seconds_by_cause").at(stall_cause_name(StallCause::weights)).at("measured").get<double>(),
              4, 1e-9);
  EXPECT_DOUBLE_EQ(json.at("compute_seconds_by_phase").at("backward").at("predicted"), 5);
  EXPECT_DOUBLE_EQ(json.at("peak_bytes").at("hbm").at("measured"), 1000);
  EXPECT_EQ(json.at("worst_ops").at(1).at("name"), "backward 1 #0");
  EXPECT_EQ(json.at("measured_periods"), 4);
}

}  // namespace
}  // namespace penstock
