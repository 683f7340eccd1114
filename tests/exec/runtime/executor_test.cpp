// How runs end: failures, hangs, stops.
#include "exec/runtime/executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/runtime/bind.h"
#include "shared/error.h"
#include "tests/exec/runtime/small_run.h"
#include "tests/shared/error_text.h"

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
  BoundSchedule bound = bind_schedule(run.schedule(), run.model(), run.training().memories());
  bound.source.hyper = [](int) { return AdamHyper{}; };
  bound.source.number = [](int step) { return step + 1; };
  bound.source.fill_rows = [](int, const StepRows&) {};
  // A template that lacks an operand: refused on a GPU lane's thread.
  for (BoundOp& op : bound.ops)
    if (auto* binding = std::get_if<TemplateBinding>(&op.work)) binding->set(TemplateOperand::weights, nullptr);
  ExecutorOptions options;
  options.steps = 5;
  EXPECT_THROW(execute(bound, run.backend(), options), std::logic_error);
}

/// Valid but for one id.
class OneBadToken : public TokenSource {
 public:
  OneBadToken(std::int64_t step, std::int64_t place, std::int32_t id) : step_(step), place_(place), id_(id) {}
  void fill(std::int64_t step, const StepRows& to) const override {
    std::fill(to.tokens, to.tokens + kSequences * kRow, 7);
    if (step == step_) to.tokens[place_] = id_;
  }
  std::string describe() const override { return "seven"; }
  std::string checksum() const override { return "seven"; }

  static constexpr std::int64_t kSequences = 8, kRow = 33;

 private:
  std::int64_t step_, place_;
  std::int32_t id_;
};

TEST(Executor, TokenOutsideTheVocabularyIsRefusedWhereItEntersAndDoesNotStay) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  ASSERT_EQ(in.sequences, OneBadToken::kSequences);
  ASSERT_EQ(in.sequence_length + 1, OneBadToken::kRow);
  const auto vocabulary = static_cast<std::int32_t>(in.model.config.vocabulary);
  constexpr std::int64_t kLast = OneBadToken::kSequences * OneBadToken::kRow - 1;  // a target and no input
  struct Bad {
    std::int64_t step, place;
    std::int32_t id;
    std::string text;
  };
  const Bad cases[] = {
      {1, 0, -1, "token 0 of sequence 0 in step 1 (tokens and sequences counted from 0) is -1; "},
      {3, 2 * OneBadToken::kRow + 5, vocabulary, "token 5 of sequence 2 in step 3 "},
      {2, kLast, std::numeric_limits<std::int32_t>::min(), "token 32 of sequence 7 in step 2 "},
      {2, kLast - 1, std::numeric_limits<std::int32_t>::max(), "is 2147483647; "},
      {4, 40, 1 << 30, "token 7 of sequence 1 in step 4 "},
  };
  for (const Bad& bad : cases) {
    SmallRun run(in);
    run.training().load(*random_states(3));
    const OneBadToken tokens(bad.step, bad.place, bad.id);
    TrainingOptions options = run.options(5);
    options.tokens = &tokens;
    const std::string text = error_text([&] { run.training().run(options); });
    EXPECT_MENTIONS(text, bad.text);
    EXPECT_MENTIONS(text, fmt::format("ids from 0 to {}", vocabulary - 1));
    for (const Op& op : run.schedule().ops) {
      if (!std::holds_alternative<InputWork>(op.work)) continue;
      const Buffer& buffer = run.schedule().buffers[static_cast<std::size_t>(op.writes[0].buffer)];
      const auto* const ids = reinterpret_cast<const std::int32_t*>(run.memory(buffer).address() + buffer.offset_bytes +
                                                                    op.writes[0].offset_bytes);
      EXPECT_EQ(std::count(ids, ids + kLast + 1, bad.id), 0);
    }
  }
}

TEST(Executor, FirstAndLastIdOfTheVocabularyAreTrainedOn) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  for (const auto id : {0, static_cast<std::int32_t>(in.model.config.vocabulary) - 1}) {
    SmallRun run(in);
    run.training().load(*random_states(3));
    const OneBadToken tokens(1, 0, id);
    TrainingOptions options = run.options(2);
    options.tokens = &tokens;
    EXPECT_EQ(run.training().run(options).steps, 2);
  }
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
  options.executor.watchdog_why = "the limit of this test";
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
    EXPECT_NE(text.find("nothing has completed for 300 ms, the limit of this test. Lane"), std::string::npos) << text;
    EXPECT_NE(text.find('"' + hung + "\", which has begun"), std::string::npos) << text;
    EXPECT_NE(text.find("Lane compute"), std::string::npos) << text;
    EXPECT_NE(text.find("waits for"), std::string::npos) << text;
  }
}

TEST(Executor, StopEndsAllLanesAfterTheSameStepAndTheRunCanGoOn) {
  const PolicyInput in = small::input(small::llama(), "penstock");
  SmallRun run(in);
  run.training().load(*random_states(3));
  RunControl control;
  TrainingOptions options = run.options(1'000'000);
  options.executor.control = &control;
  int last = 0;
  const auto report = options.report;
  options.report = [&](const StepReport& step) {
    report(step);
    if (step.step == 1) last = control.stop();
  };
  const ExecutorResult result = run.training().run(options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, last);
  EXPECT_LE(last, 3);  // the launch thread has begun the step after the one that runs
  EXPECT_EQ(run.bits().losses.size(), static_cast<std::size_t>(result.steps));
  EXPECT_EQ(run.training().steps_done(), result.steps);
  // Every update of the last step is in the states: the same number of steps without a stop gives the same bits.
  EXPECT_EQ(run.training().states().fingerprint(), run_bits(in, result.steps).states);
}

/// Nothing of step 0 can run, since its input does not come: the launch thread has begun two steps, and stands there
/// until the watchdog ends the run.
TEST(Executor, LaunchesRunTwoStepsAheadAndNoFurther) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  RunControl control;
  TrainingOptions options = run.options(1'000'000);
  options.executor.control = &control;
  options.executor.watchdog_seconds = 0.3;
  int begun = 0;
  options.executor.before_host_op = [&](const Op& op, int step, const Board& board) {
    if (step != 0 || !std::holds_alternative<InputWork>(op.work)) return;
    board.wait_for_abort();
    begun = control.stop();
  };
  EXPECT_THROW(run.training().run(options), std::runtime_error);
  EXPECT_EQ(begun, 2);
}

TEST(Executor, AStopBeforeTheRunLeavesItWithoutSteps) {
  SmallRun run(small::input(small::llama(), "penstock"));
  run.training().load(*random_states(3));
  const std::uint64_t before = run.training().states().fingerprint();
  RunControl control;
  EXPECT_EQ(control.stop(), 0);
  TrainingOptions options = run.options(1'000'000);
  options.executor.control = &control;
  const ExecutorResult result = run.training().run(options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 0);
  EXPECT_EQ(run.training().states().fingerprint(), before);
}

TEST(Executor, AbortFromOutsideEndsTheRunAtOnceWithItsReason) {
  for (const bool before : {true, false}) {
    SmallRun run(small::input(small::llama(), "penstock"));
    run.training().load(*random_states(3));
    RunControl control;
    if (before) control.abort("enough");
    TrainingOptions options = run.options(1'000'000);
    options.executor.control = &control;
    options.executor.before_host_op = [&](const Op&, int step, const Board&) {
      if (step == 1) control.abort("enough");
    };
    try {
      run.training().run(options);
      ADD_FAILURE() << "it went on";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "enough");
    }
    EXPECT_EQ(run.training().steps_done(), 0);
    EXPECT_EQ(control.stop(), 0);  // the run is over: nothing of it is touched any more
  }
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
