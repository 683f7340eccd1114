// What happens between steps, in which order, and who is told.
#include "exec/training/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exec/checkpoint/checkpoint.h"
#include "exec/training/step_record.h"
#include "shared/policy/evaluation.h"
#include "tests/exec/runtime/small_run.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

class Diary : public TrainingObserver {
 public:
  void training_after(std::int64_t step) override { lines.push_back(fmt::format("training after {}", step)); }
  void step_ended(const StepReport& report, double seconds) override {
    lines.push_back(fmt::format("step {}", report.step));
    EXPECT_GT(seconds, 0);
  }
  void evaluating(std::int64_t step) override { lines.push_back(fmt::format("evaluating {}", step)); }
  void evaluated(const EvaluationReport& report) override { lines.push_back(fmt::format("evaluated {}", report.step)); }
  void saving(std::int64_t step) override { lines.push_back(fmt::format("saving {}", step)); }
  void saved(std::int64_t step, const std::filesystem::path& folder) override {
    lines.push_back(fmt::format("saved {} to {}", step, folder.filename().string()));
  }
  void not_saved(const UnsavedStep& unsaved) override {
    lines.push_back(
        fmt::format("not saved {}, stands {}, next {}", unsaved.step, unsaved.stands.value_or(-1), unsaved.next));
  }

  std::vector<std::string> lines;
};

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest()
      : run_(in_), evaluation_schedule_(make_evaluation(in_)), held_out_(random_tokens(token_shape(in_), 99)) {
    run_.training().load(*random_states(3));
    evaluation_ = std::make_unique<Evaluation>(evaluation_schedule_, run_.training(), run_.backend(), *held_out_, 1);
  }
  RunSaves saves_every(std::int64_t steps) {
    CheckpointOptions options;
    options.every = steps;
    RunSaves saves(folder_.path() / "c", options);
    saves.set_aside(run_.training(), std::int64_t{1} << 30);
    return saves;
  }

  PolicyInput in_ = small::input(small::llama(), "penstock");
  SmallRun run_;
  Schedule evaluation_schedule_;
  std::unique_ptr<TokenSource> held_out_;
  std::unique_ptr<Evaluation> evaluation_;
  TemporaryFolder folder_;
  RunDescription description_;
  Diary diary_;
};

TEST_F(TrainerTest, EvaluatesBeforeTheFirstStepBetweenAndBehindTheLast) {
  Trainer trainer(run_.training(), run_.options(3), {&diary_});
  trainer.evaluates(*evaluation_, 2);
  trainer.train(false);
  EXPECT_EQ(diary_.lines, (std::vector<std::string>{"evaluating 0", "evaluated 0", "training after 0", "step 1",
                                                    "step 2", "evaluating 2", "evaluated 2", "training after 2",
                                                    "step 3", "evaluating 3", "evaluated 3"}));
  EXPECT_EQ(trainer.take_result().steps, 3);
}

TEST_F(TrainerTest, WhatWasEvaluatedBeforeItsFirstStepIsNotEvaluatedAgain) {
  Trainer trainer(run_.training(), run_.options(1), {&diary_});
  trainer.evaluates(*evaluation_, 2);
  trainer.train(true);
  EXPECT_EQ(diary_.lines.front(), "training after 0");
}

TEST_F(TrainerTest, SavesBetweenStepsAndLeavesTheEndToOthers) {
  RunSaves saves = saves_every(2);
  Trainer trainer(run_.training(), run_.options(4), {&diary_});
  trainer.saves(saves, description_);
  trainer.train(false);
  trainer.finish_save();
  EXPECT_EQ(diary_.lines,
            (std::vector<std::string>{"training after 0", "step 1", "step 2", "saving 2", "training after 2", "step 3",
                                      "step 4", "saving 2", "saved 2 to step-2"}));
}

TEST_F(TrainerTest, ASaveThatFailsEndsNothing) {
  RunSaves saves = saves_every(1);
  folder_.write("c/step-1.partial/somebody's", "");  // no save's own: it is not removed
  Trainer trainer(run_.training(), run_.options(3), {&diary_});
  trainer.saves(saves, description_);
  trainer.train(false);
  trainer.finish_save();
  EXPECT_EQ(std::count(diary_.lines.begin(), diary_.lines.end(), "not saved 1, stands -1, next 2"), 1);
  EXPECT_EQ(std::count(diary_.lines.begin(), diary_.lines.end(), "saved 2 to step-2"), 1);
  EXPECT_EQ(trainer.take_result().steps, 3);
}

TEST_F(TrainerTest, AllPartsAreOneResult) {
  StepRecord record;
  TrainingOptions options = run_.options(4);
  options.executor.record_steps = 3;
  Trainer trainer(run_.training(), options, {&record});
  trainer.evaluates(*evaluation_, 1);
  trainer.train(false);
  const ExecutorResult result = trainer.take_result();
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.recorder.steps(), 3);
  EXPECT_EQ(record.steps().size(), 4u);
  EXPECT_EQ(record.evaluations().size(), 5u);
}

TEST_F(TrainerTest, AStopIsTheLastThingThatHappens) {
  RunControl control;
  TrainingOptions options = run_.options(1000000);
  options.executor.control = &control;
  class Stops : public TrainingObserver {
   public:
    explicit Stops(RunControl& control) : control_(control) {}
    void step_ended(const StepReport& report, double) override {
      if (report.step == 3) control_.stop();
    }

   private:
    RunControl& control_;
  } stops(control);
  Trainer trainer(run_.training(), options, {&stops, &diary_});
  trainer.evaluates(*evaluation_, 1000);
  trainer.train(false);
  const ExecutorResult result = trainer.take_result();
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(diary_.lines.back(), fmt::format("step {}", result.steps));
}

}  // namespace
}  // namespace penstock::exec
