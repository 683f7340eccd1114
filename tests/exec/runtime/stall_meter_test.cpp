#include "exec/runtime/stall_meter.h"

#include <gtest/gtest.h>

#include "exec/runtime/recorder.h"
#include "shared/timeline/stalls.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

/// What follows the last backward op of a step on its lane, and the gap before it, belong to the next one.
TEST(StallMeter, GapsBelongToTheStepThatEndsBehindThem) {
  PolicyInput in = small::input(small::llama(), "resident");  // updates lie behind backward on the compute lane
  const Schedule schedule = make_schedule(in);
  StallMeter meter(schedule);
  std::int64_t before = 0, behind = 0;  // ops up to the last backward one, and the others
  for (const int op : meter.lane()) (op <= meter.last_backward() ? before : behind) += 1;
  ASSERT_GT(before, 0);
  meter.begin(100);
  std::int64_t now = 100;
  for (int step = 0; step < 6; ++step) {
    for (const int op : meter.lane()) {
      meter.add(step, op, now + 3, now + 10);  // a gap of 3 ns before each
      now += 10;
    }
    EXPECT_NEAR(meter.stalls(step).seconds, 3e-9 * static_cast<double>(before + (step > 0 ? behind : 0)), 1e-15)
        << step;
    EXPECT_NEAR(meter.stalls(step).share(), 0.3, 1e-12) << step;
  }
}

TEST(StallMeter, OtherLanesAndOverlapsAreNoGaps) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "megatrain"));
  StallMeter meter(schedule);
  meter.begin(0);
  for (const Op& op : schedule.ops)  // those of the lane end to end, the others long before
    meter.meters(op.id) ? meter.add(0, op.id, 0, 50) : meter.add(0, op.id, -1000, 1000000);
  EXPECT_EQ(meter.stalls(0).seconds, 0);
}

/// A lane that works for a moment after a long wait: the wait is less than the period that it lies in.
TEST(StallMeter, TheShareIsOfThePeriodThatTheGapsLieIn) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "megatrain"));
  StallMeter meter(schedule);
  meter.begin(1000);
  EXPECT_LT(StallMeter(schedule).stalls(0).seconds, 0);  // not known yet
  std::int64_t now = 1000;
  for (int step = 0; step < 2; ++step) {
    now += step == 0 ? 500 : 0;
    for (const int op : meter.lane()) meter.add(step, op, now, now);
    EXPECT_EQ(meter.stalls(step).share(), step == 0 ? 1 : 0) << step;
  }
}

/// Reported while the run goes on, and attributed to causes when it is over: the same time.
TEST(StallMeter, ReportsAddUpToTheTimelinesStalls) {
  for (const char* policy : {"penstock", "megatrain", "zero3-offload"}) {
    PolicyInput in = small::input(small::llama(), policy);
    in.parameters.numerics.clip = true;
    if (in.parameters.optimizer_time == OptimizerTime::backward) in.parameters.optimizer_time = OptimizerTime::end;
    SmallRun run(in);
    run.training().load(*random_states(3));
    TrainingOptions options = run.options(8);
    std::vector<double> stalls;
    options.report = [&](const StepReport& report) { stalls.push_back(report.stalls.seconds); };
    options.executor.record_steps = 8;
    const ExecutorResult result = run.training().run(options);
    Timeline timeline;
    timeline.source = TimelineSource::measured;
    timeline.steps = 8;
    timeline.warmup_steps = 2;
    timeline.ops = result.recorder.times(0, 8);
    double sum = 0;
    ASSERT_EQ(stalls.size(), 8u);
    for (const double seconds : stalls) EXPECT_GE(seconds, 0);
    for (std::size_t step = 2; step < 8; ++step) sum += stalls[step];
    EXPECT_NEAR(attribute_stalls(run.schedule(), timeline).total_seconds, sum / 6, 1e-9) << policy;
  }
}

}  // namespace
}  // namespace penstock::exec
