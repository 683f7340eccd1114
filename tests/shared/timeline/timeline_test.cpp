#include "shared/timeline/timeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "shared/files.h"
#include "tests/shared/error_text.h"
#include "tests/shared/temporary_folder.h"
#include "tests/shared/timeline/tiny_schedule.h"

namespace penstock::test {
namespace {

Timeline example() {
  Timeline timeline;
  timeline.source = TimelineSource::measured;
  timeline.schedule_hash = "0123456789abcdef";
  timeline.scenario = "tiny \"one\"";
  timeline.machine = "h200";
  timeline.first_step = 3;
  timeline.steps = 2;
  timeline.warmup_steps = 1;
  timeline.ops = {{3, 0, 0, 0.1}, {3, 1, 1.0 / 3, 0.7}, {4, 0, 1e-9, 2}, {4, 1, 2, 2}};
  timeline.peaks = {{TierKind::hbm, 123456789012}, {TierKind::nvme, 0}};
  timeline.losses = {10.5, std::nan("")};
  return timeline;
}

std::string message_of(const std::filesystem::path& path) {
  return error_text([&] { read_timeline(path); });
}

TEST(Timeline, ReadsBackToTheBit) {
  const TemporaryFolder folder;
  const Timeline written = example();
  write_timeline(written, folder.path() / "t.json");
  const Timeline read = read_timeline(folder.path() / "t.json");
  EXPECT_EQ(read.source, TimelineSource::measured);
  EXPECT_EQ(read.schedule_hash, written.schedule_hash);
  EXPECT_EQ(read.scenario, written.scenario);
  EXPECT_EQ(read.machine, written.machine);
  EXPECT_EQ(read.first_step, 3);
  EXPECT_EQ(read.steps, 2);
  EXPECT_EQ(read.warmup_steps, 1);
  EXPECT_EQ(read.ops, written.ops);  // 1/3 included: the shortest text that reads back to the same double
  ASSERT_EQ(read.peaks.size(), 2u);
  EXPECT_EQ(read.peaks[0].bytes, 123456789012);
  EXPECT_EQ(read.peaks[1].tier, TierKind::nvme);
  ASSERT_EQ(read.losses.size(), 2u);
  EXPECT_EQ(read.losses[0], 10.5);
  EXPECT_TRUE(std::isnan(read.losses[1]));
}

struct Damage {
  std::string from, to;  // replaces the first `from` of a good file
  std::string says;      // part of the error
};

TEST(Timeline, EveryFaultIsAnErrorThatNamesThePlace) {
  const TemporaryFolder folder;
  write_timeline(example(), folder.path() / "good.json");
  const std::string good = read_text_file(folder.path() / "good.json", 1 << 20);
  const std::vector<Damage> damages = {
      {"penstock-timeline/1", "penstock-timeline/2", "expected one of penstock-timeline/1"},
      {"\"measured\"", "\"guessed\"", "source"},
      {"\"first_step\": 3", "\"first_step\": -1", "first_step"},
      {"\"warmup_steps\": 1", "\"warmup_steps\": 3", "whole number from 0 to 2"},
      {"\"machine\"", "\"engine\"", "machine: is missing"},
      {"\"steps\": 2", "\"steps\": 2, \"extra\": 1", "extra"},
      {"[3, 1,", "[3, 1, 7,", "ops[1]: expected [step, op, start, end]"},
      {"[3, 1,", "[5, 1,", "ops[1][0] (step): expected a whole number from 3 to 4"},
      {"[3, 1,", "[3, 0,", "ops[1]: step 3, op 0 follows step 3, op 0"},
      {"[4, 0,", "[3, 0,", "ops[2]: step 3, op 0 follows step 3, op 1"},
      {"[3, 1,", "[3, 1.5,", "ops[1][1] (op)"},
      {"[3, 1,", "[3, -1,", "ops[1][1] (op)"},
      {"2, 2]", "2, 1]", "ops[3][3] (end): expected a number from 2"},
      {"2, 2]", "\"x\", 2]", "ops[3][2] (start)"},
      {"\"tier\": \"hbm\"", "\"tier\": \"l2\"", "peaks[0].tier"},
      {"123456789012", "-5", "peaks[0].bytes"},
      {"10.5", "\"low\"", "losses[0]"},
      {"\"losses\": [", "\"losses\": 7, \"more\": [", "losses: expected a list"},
  };
  for (const Damage& damage : damages) {
    std::string text = good;
    const std::size_t at = text.find(damage.from);
    ASSERT_NE(at, std::string::npos) << damage.from;
    text.replace(at, damage.from.size(), damage.to);
    write_text_file(folder.path() / "bad.json", text);
    const std::string message = message_of(folder.path() / "bad.json");
    EXPECT_NE(message.find(damage.says), std::string::npos) << damage.to << " gave: " << message;
    EXPECT_NE(message.find("bad.json"), std::string::npos) << message;
  }
}

/// A forward and a backward op per step; the backward ends at the given times.
Timeline with_boundaries(const std::vector<double>& ends, int warmup) {
  Timeline timeline;
  timeline.first_step = 10;
  timeline.steps = static_cast<int>(ends.size());
  timeline.warmup_steps = warmup;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const int step = 10 + static_cast<int>(i);
    timeline.ops.push_back({step, 0, ends[i] - 2, ends[i] - 1});
    timeline.ops.push_back({step, 1, ends[i] - 1, ends[i]});
    timeline.ops.push_back({step, 2, ends[i], ends[i] + 1});
  }
  return timeline;
}

struct ForwardBackward : TinySchedule {
  ForwardBackward() {
    compute("forward");
    compute("backward", Pass::backward);
    op("adam", kHost, OptimizerWork{1, 1});
  }
};

TEST(Timeline, StepsEndWithTheLastBackwardOpOfCompute) {
  ForwardBackward tiny;
  EXPECT_EQ(last_backward_op(tiny.schedule), 1);
  tiny.compute("again");  // a later compute op that is no backward changes nothing
  EXPECT_EQ(last_backward_op(tiny.schedule), 1);
  TinySchedule forward_only;
  forward_only.compute("forward");
  forward_only.op("report", TinySchedule::kHost, ReportWork{});
  EXPECT_EQ(last_backward_op(forward_only.schedule), 0);
}

// Ends 5, 9, 12, 16, 21: periods 4, 3, 4, 5.
TEST(Timeline, PeriodsAreBetweenSuccessiveBoundaries) {
  const ForwardBackward tiny;
  const Timeline timeline = with_boundaries({5, 9, 12, 16, 21}, 0);
  EXPECT_EQ(step_periods(tiny.schedule, timeline), (std::vector<double>{4, 3, 4, 5}));
  EXPECT_EQ(steady_step_seconds(tiny.schedule, timeline), 4);
  EXPECT_EQ(step_spread(tiny.schedule, timeline), 0.5);  // (5 - 3) / 4
}

// With two warm-up steps the first steady period runs from the end of the second one: 12 - 9, then 4, then 5.
TEST(Timeline, WarmupStepsAreLeftOut) {
  const ForwardBackward tiny;
  const Timeline timeline = with_boundaries({5, 9, 12, 16, 21}, 2);
  EXPECT_EQ(step_periods(tiny.schedule, timeline), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(steady_step_seconds(tiny.schedule, with_boundaries({5, 9, 12, 16}, 2)), 3.5);  // median of 3 and 4
}

TEST(Timeline, OneBoundaryHasNoPeriod) {
  const ForwardBackward tiny;
  EXPECT_TRUE(step_periods(tiny.schedule, with_boundaries({5}, 0)).empty());
  EXPECT_EQ(steady_step_seconds(tiny.schedule, with_boundaries({5}, 0)), 0);
}

}  // namespace
}  // namespace penstock::test
