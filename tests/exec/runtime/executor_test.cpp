// How runs end: failures, hangs, stops.
#include "exec/runtime/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "shared/error.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

bool is_optimizer(const Op& op) { return std::holds_alternative<OptimizerWork>(op.work); }

TEST(Executor, FailureOfAHostOpEndsTheRunWithItsErrorAndNothingIsWrittenAfterIt) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(5);
  std::uint64_t before = 0;
  options.executor.before_host_op = [&](const Op& op, int step, const Board&) {
    if (step != 2 || !is_optimizer(op)) return;
    // The first optimizer op of step 2: no state of that step is written yet, those of step 1 are complete.
    before = run.training().states().fingerprint();
    throw std::runtime_error("disk on fire");
  };
  try {
    run.training().run(options);
    FAIL() << "the error was lost";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "disk on fire");
  }
  EXPECT_EQ(run.training().states().fingerprint(), before);
  EXPECT_EQ(run.training().steps_done(), 0);  // nothing that could be saved
}

TEST(Executor, FailureOfATemplateEndsTheRun) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  // A token outside the vocabulary: the embedding refuses it, on a GPU lane's thread.
  class BadTokens : public TokenSource {
   public:
    void fill(std::int64_t, std::int32_t* tokens) const override { std::fill(tokens, tokens + 8 * 33, 1'000'000); }
    std::string describe() const override { return "bad"; }
    std::string checksum() const override { return "bad"; }
  };
  const BadTokens tokens;
  TrainingOptions options = run.options(5);
  options.tokens = &tokens;
  EXPECT_THROW(run.training().run(options), InputError);
}

TEST(Executor, FirstErrorWins) {
  Board board(2);
  board.abort(std::make_exception_ptr(std::runtime_error("first")));
  board.abort(std::make_exception_ptr(std::runtime_error("second")));
  try {
    std::rethrow_exception(board.error());
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_FALSE(board.wait(0, 1));
  EXPECT_EQ(board.completed(1), Board::kReleased);
  board.publish(1, 3);  // must not take the release back
  EXPECT_EQ(board.completed(1), Board::kReleased);
}

TEST(Executor, WatchdogNamesTheOpThatHangsAndWhoWaitsForIt) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(5);
  options.executor.watchdog_seconds = 0.3;
  std::string hung;
  options.executor.before_host_op = [&](const Op& op, int step, const Board& board) {
    if (step != 1 || !is_optimizer(op) || !hung.empty()) return;
    hung = op.name;
    board.wait_for_abort();
  };
  try {
    run.training().run(options);
    FAIL() << "the hang was not seen";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("nothing has completed for 0.3 s"), std::string::npos) << text;
    EXPECT_NE(text.find('"' + hung + "\", which has begun"), std::string::npos) << text;
    EXPECT_NE(text.find("Lane compute"), std::string::npos) << text;
    EXPECT_NE(text.find("waits for"), std::string::npos) << text;
  }
}

TEST(Executor, StopEndsAllLanesAfterTheSameStepAndTheRunCanGoOn) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in);
  run.training().load(*random_states(3));
  std::atomic<int> stops{0};
  TrainingOptions options = run.options(1'000'000);
  options.executor.stops = &stops;
  const auto report = options.report;
  options.report = [&](const StepReport& step) {
    report(step);
    // Long enough before the end that the watch, ten times a second, has seen it: the run would go on for hours.
    if (step.step == 1) stops = 1;
  };
  const ExecutorResult result = run.training().run(options);
  EXPECT_TRUE(result.stopped);
  EXPECT_LT(result.steps, 1'000'000);
  EXPECT_EQ(run.bits().losses.size(), static_cast<std::size_t>(result.steps));
  EXPECT_EQ(run.training().steps_done(), result.steps);
  // Every update of the last step is in the states: the same number of steps without a stop gives the same bits.
  EXPECT_EQ(run.training().states().fingerprint(), run_bits(in, result.steps).states);
}

TEST(Executor, SecondStopAborts) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  const std::atomic<int> stops{2};
  TrainingOptions options = run.options(1'000'000);
  options.executor.stops = &stops;
  EXPECT_THROW(run.training().run(options), std::runtime_error);
}

TEST(Executor, RecordsEveryOpOfTheStepsAskedForWithinItsEdges) {
  SmallRun run(small::input(small::qwen2_tied(), "zero3-offload"));  // has waits on the launch lane
  run.training().load(*random_states(3));
  TrainingOptions options = run.options(3);
  options.executor.record_steps = 2;
  const ExecutorResult result = run.training().run(options);
  const std::vector<OpTime> times = result.recorder.times(10, result.steps);
  const std::size_t ops = run.schedule().ops.size();
  ASSERT_EQ(times.size(), 2 * ops);
  EXPECT_EQ(times.front().step, 10);
  EXPECT_EQ(times.back().step, 11);
  const auto at = [&](int step, int op) -> const OpTime& {
    return times[static_cast<std::size_t>(step) * ops + static_cast<std::size_t>(op)];
  };
  for (const OpTime& time : times) EXPECT_LE(time.start, time.end);
  for (int step = 0; step < 2; ++step)
    for (const Edge& edge : run.schedule().edges) {
      const bool is_wait = std::holds_alternative<WaitWork>(run.schedule().ops[static_cast<std::size_t>(edge.to)].work);
      if (step - edge.distance < 0 || is_wait) continue;
      EXPECT_LE(at(step - edge.distance, edge.from).end, at(step, edge.to).start);
    }
}

TEST(Executor, SkipsTheUpdateAndSaysSoWhenTheNormIsNotFinite) {
  SmallRun run(small::input(small::llama(), "penstock"));
  class InfiniteNorms : public StateSource {
   public:
    void read(const ParameterTensor& tensor, StatePart part, std::int64_t first, std::span<float> out) const override {
      random_->read(tensor, part, first, out);
      if (part == StatePart::master && tensor.rows == 1)
        std::fill(out.begin(), out.end(), 3e38f);  // norm weights: overflow
    }

   private:
    std::unique_ptr<StateSource> random_ = random_states(3);
  };
  run.training().load(InfiniteNorms());
  const std::uint64_t before = run.training().states().fingerprint();
  TrainingOptions options = run.options(2);
  int skipped = 0;
  options.report = [&](const StepReport& report) { skipped += report.skipped ? 1 : 0; };
  run.training().run(options);
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(run.training().states().fingerprint(), before);
}

TEST(Training, LearningRateWarmsUpLinearlyAndStaysAcrossRuns) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3), 1);  // one step is behind the states
  TrainingOptions options = run.options(2);
  options.hyper.learning_rate = 0.25;
  options.learning_rate_warmup_steps = 4;
  std::vector<double> rates;
  std::vector<std::int64_t> steps;
  options.report = [&](const StepReport& report) {
    rates.push_back(report.learning_rate);
    steps.push_back(report.step);
  };
  run.training().run(options);
  run.training().run(options);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(rates, (std::vector<double>{0.125, 0.1875, 0.25, 0.25}));
}

}  // namespace
}  // namespace penstock::exec
