// [optimizer], [checkpoint] and [log] of a scenario.
#include "shared/scenario/training_toml.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/shared/error_text.h"

namespace penstock {
namespace {

RunOptions read(const std::string& text) {
  const TomlDocument document = parse_toml(text, "s.toml");
  RunOptions run;
  TomlSection section(document, "run");
  if (section.has("steps")) run.steps = static_cast<int>(section.integer("steps", 1, 1000));
  read_optimizer(document, section, run);
  section.finish();
  read_checkpoint(document, "/f/s.toml", run);
  read_log(document, "/f/s.toml", run);
  return run;
}
std::string refusal(const std::string& text) {
  return error_text([&] { read(text); });
}

TEST(TrainingToml, ReadsEveryKey) {
  const RunOptions run = read(R"([optimizer]
learning_rate = 1e-3
warmup_steps = 5
schedule = "wsd"
total_steps = 100
decay_steps = 20
final_learning_rate = 1e-5
beta1 = 0.8
beta2 = 0.99
epsilon = 1e-6
weight_decay = 0
max_norm = 0.5
[checkpoint]
every = 10
keep = 3
folder = "c"
[log]
metrics = "/m/metrics.jsonl"
)");
  EXPECT_EQ(run.learning_rate, 1e-3);
  EXPECT_EQ(run.learning_rate_warmup_steps, 5);
  EXPECT_EQ(run.rate.schedule, RateSchedule::wsd);
  EXPECT_EQ(run.rate.total_steps, 100);
  EXPECT_EQ(run.rate.decay_steps, 20);
  EXPECT_EQ(run.rate.final_rate, 1e-5);
  EXPECT_EQ(run.beta1, 0.8);
  EXPECT_EQ(run.beta2, 0.99);
  EXPECT_EQ(run.epsilon, 1e-6);
  EXPECT_EQ(run.weight_decay, 0);
  EXPECT_EQ(run.max_norm, 0.5);
  EXPECT_EQ(run.checkpoint.every, 10);
  EXPECT_EQ(run.checkpoint.keep, 3);
  EXPECT_EQ(run.checkpoint.folder, "/f/c");
  EXPECT_EQ(run.metrics, "/m/metrics.jsonl");
}

TEST(TrainingToml, WhatIsNotSaidIsAConstantRateAndOneSaveAtTheEnd) {
  const RunOptions run = read("[run]\nlearning_rate = 2e-4\nlearning_rate_warmup_steps = 7\n");
  EXPECT_EQ(run.learning_rate, 2e-4);
  EXPECT_EQ(run.learning_rate_warmup_steps, 7);
  EXPECT_EQ(run.rate.schedule, RateSchedule::constant);
  EXPECT_EQ(run.checkpoint.every, 0);
  EXPECT_TRUE(run.checkpoint.folder.empty());
  EXPECT_TRUE(run.metrics.empty());
}

TEST(TrainingToml, AScheduleGoesOverTheRunsSteps) {
  EXPECT_EQ(read("[run]\nsteps = 50\n[optimizer]\nschedule = \"cosine\"\n").rate.total_steps, 50);
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"cosine\"\n"), "s.toml:2: [optimizer] schedule: needs to know");
}

TEST(TrainingToml, WhatHasNoEffectOrIsSaidTwiceIsRefused) {
  EXPECT_MENTIONS(refusal("[run]\nbeta1 = 0.8\n[optimizer]\nbeta1 = 0.8\n"),
                  "s.toml:2: [run] beta1: stands beside s.toml:4: [optimizer] beta1");
  EXPECT_MENTIONS(refusal("[run]\nlearning_rate_warmup_steps = 1\n[optimizer]\nwarmup_steps = 1\n"), "stands beside");
  EXPECT_MENTIONS(refusal("[optimizer]\ntotal_steps = 9\n"), "does nothing with schedule = \"constant\"");
  EXPECT_MENTIONS(refusal("[optimizer]\nfinal_learning_rate = 0\n"), "does nothing with schedule = \"constant\"");
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"linear\"\ntotal_steps = 9\ndecay_steps = 2\n"), "\"wsd\" alone");
  EXPECT_MENTIONS(refusal("[checkpoint]\nkeep = 2\n"), "s.toml:2: [checkpoint] keep: does nothing without every");
}

TEST(TrainingToml, ScheduleErrorsNameLineAndKey) {
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"cosin\"\n"), "expected one of \"constant\", \"linear\"");
  EXPECT_MENTIONS(refusal("[optimizer]\nshedule = \"cosine\"\n"), "did you mean schedule?");
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"wsd\"\ntotal_steps = 9\n"), "wsd needs decay_steps");
  const std::string wsd = "[optimizer]\nschedule = \"wsd\"\nwarmup_steps = 4\ndecay_steps = 5\ntotal_steps = ";
  EXPECT_EQ(read(wsd + "9\n").rate.total_steps, 9);
  EXPECT_MENTIONS(refusal(wsd + "8\n"), "s.toml:5: [optimizer] total_steps: 8 steps in all are fewer than the 9");
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"linear\"\ntotal_steps = 5\nwarmup_steps = 5\n"),
                  "fewer than the 6");
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"linear\"\ntotal_steps = 5\nfinal_learning_rate = 1\n"),
                  "final_learning_rate");  // above the highest
  EXPECT_MENTIONS(refusal("[checkpoint]\nevery = 0\n"), "every");
  EXPECT_MENTIONS(refusal("[checkpoint]\nevery = 1\nkeep = 0\n"), "keep");
  EXPECT_MENTIONS(refusal("[checkpoint]\nfolder = \"\"\n"), "expected a path");
  EXPECT_MENTIONS(refusal("[log]\nmetric = \"m\"\n"), "did you mean metrics?");
}

}  // namespace
}  // namespace penstock
