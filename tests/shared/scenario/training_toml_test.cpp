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
  TomlSection section(document, "run"), data(document, "data"), eval(document, "eval");
  if (section.has("steps")) run.steps = static_cast<int>(section.integer("steps", 1, 1000));
  section.finish();
  if (eval.has("file")) run.eval.file = eval.text("file");
  read_data(data, run);
  read_eval(eval, run);
  read_optimizer(document, section.has("steps"), run);
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
decay = "matrices_and_embeddings"
[data]
kind = "nanogpt"
packing = "windows"
seed = 9
[eval]
file = "held-out"
every = 4
steps = 6
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
  EXPECT_EQ(run.decay, Decay::matrices_and_embeddings);
  EXPECT_EQ(run.data.kind, "nanogpt");
  EXPECT_EQ(run.data.packing, Packing::windows);
  EXPECT_EQ(run.data.seed, 9u);
  EXPECT_EQ(run.eval.every, 4);
  EXPECT_EQ(run.eval.steps, 6);
  EXPECT_EQ(run.checkpoint.every, 10);
  EXPECT_EQ(run.checkpoint.keep, 3);
  EXPECT_EQ(run.checkpoint.folder, "/f/c");
  EXPECT_EQ(run.metrics, "/m/metrics.jsonl");
}

TEST(TrainingToml, WhatIsNotSaidIsAConstantRateAndOneSaveAtTheEnd) {
  const RunOptions run = read("[optimizer]\nlearning_rate = 2e-4\nwarmup_steps = 7\n");
  EXPECT_EQ(run.learning_rate, 2e-4);
  EXPECT_EQ(run.learning_rate_warmup_steps, 7);
  EXPECT_EQ(run.rate.schedule, RateSchedule::constant);
  EXPECT_EQ(run.checkpoint.every, 0);
  EXPECT_TRUE(run.checkpoint.folder.empty());
  EXPECT_TRUE(run.metrics.empty());
  EXPECT_EQ(run.decay, Decay::all);
  EXPECT_EQ(run.data.packing, Packing::automatic);
  EXPECT_FALSE(run.eval.is_asked());
}

TEST(TrainingToml, AScheduleGoesOverTheRunsSteps) {
  EXPECT_EQ(read("[run]\nsteps = 50\n[optimizer]\nschedule = \"cosine\"\n").rate.total_steps, 50);
  EXPECT_MENTIONS(refusal("[optimizer]\nschedule = \"cosine\"\n"), "s.toml:2: [optimizer] schedule: needs to know");
}

TEST(TrainingToml, WhatHasNoEffectIsRefused) {
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
  EXPECT_MENTIONS(refusal("[optimizer]\ndecay = \"none\"\n"), "expected one of \"all\", \"matrices\"");
  EXPECT_MENTIONS(refusal("[data]\npacking = \"pack\"\n"), "expected one of \"auto\", \"packed\"");
  EXPECT_MENTIONS(refusal("[eval]\nevery = 5\n"), "s.toml:2: [eval] every: there is nothing to evaluate on");
  EXPECT_MENTIONS(refusal("[eval]\nfile = \"a\"\n"), "s.toml:2: [eval] file: does nothing without every");
}

}  // namespace
}  // namespace penstock
