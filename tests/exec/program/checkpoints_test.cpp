// Checkpoints every so many steps: whole whenever the run is killed, and gone on with to the bits of a run that never
// was.
#include <cmath>
#include <cstdint>
#include <random>
#include <set>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class CheckpointsTest : public ProgramTest {
 protected:
  CheckpointsTest() {
    std::string text = kScenario;  // without a planner
    text.replace(text.find("\"penstock\""), 10, "\"megatrain\"");
    folder_.write("s.toml", text + "[checkpoint]\nevery = 2\nfolder = \"c\"\n");
  }
  /// Names in the folder c.
  std::set<std::string> saved() const {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path() / "c"))
      names.insert(entry.path().filename().string());
    return names;
  }
  std::int64_t step_of(const std::string& name) const {
    return nlohmann::json::parse(file_text(folder_.path() / "c" / name / "run.json"))["step"].get<std::int64_t>();
  }
  using Names = std::set<std::string>;
};

TEST_F(CheckpointsTest, TheLastOnesAreKeptAndTheEndIsSaved) {
  const Outcome outcome = run("run s.toml --steps 7");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(saved(), (Names{"step-6", "step-7"}));
  EXPECT_EQ(step_of("step-6"), 6);
  EXPECT_EQ(step_of("step-7"), 7);
  EXPECT_MENTIONS(outcome.out, "saved step 2 to ");
  EXPECT_MENTIONS(outcome.out, "saved step 7 to ");
  // A step that is saved already is not saved again at the end, and --save is before [checkpoint] folder.
  const Outcome other = run("run s.toml --steps 8 --save d --set checkpoint.keep=3 --set checkpoint.every=3");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.out.find("saved step 7"), std::string::npos);
  for (const char* name : {"d/step-3", "d/step-6", "d/step-8"}) EXPECT_TRUE(fs::exists(folder_.path() / name)) << name;
}

TEST_F(CheckpointsTest, StepsAndTheirBitsAreThoseWithoutThem) {
  const nlohmann::json parts = json("run s.toml --steps 7 --timeline t.json --json");
  const nlohmann::json whole = json("run s.toml --steps 7 --save whole --set checkpoint.every=100 --json");
  EXPECT_EQ(parts["steps"], whole["steps"]);
  EXPECT_EQ(parts["steps"].size(), 7u);
  const nlohmann::json timeline = nlohmann::json::parse(file_text(folder_.path() / "t.json"));
  EXPECT_EQ(timeline["steps"], 7);
  std::set<int> steps;
  for (const nlohmann::json& op : timeline["ops"]) steps.insert(op[0].get<int>());
  EXPECT_EQ(steps, (std::set<int>{0, 1, 2, 3, 4, 5, 6}));
}

// Each layer before its next update, where there is no copy: the files and the losses are the same, whenever the policy
// updates, and whatever lies on the GPU.
TEST_F(CheckpointsTest, WithoutACopyTheFilesAreTheSame) {
  for (const char* change : {"", " --set policy.optimizer_when=next_forward --set policy.states=planes",
                             " --set policy.name=resident --set machine.hbm=\"1 GiB\""}) {
    SCOPED_TRACE(change);
    const std::string common = std::string("run s.toml --steps 7 --set checkpoint.keep=4") + change;
    const Outcome text = run(common + " --save text --set checkpoint.copy=false");
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_MENTIONS(text.out, "are written beside training, ");
    EXPECT_MENTIONS(text.out, "each layer before its next update");
    EXPECT_MENTIONS(text.out, "training waits for at most ");
    EXPECT_MENTIONS(text.out, "[checkpoint] copy is false");
    EXPECT_MENTIONS(text.out, "\nsaves between steps: 3 of ");
    EXPECT_MENTIONS(text.out, " (mean, expected ");
    const nlohmann::json copied = json(common + " --save copied --json");
    const nlohmann::json layers = json(common + " --save layers --set checkpoint.copy=false --json");
    EXPECT_EQ(copied["steps"], layers["steps"]);
    EXPECT_EQ(copied["saves"].size(), 3u);
    EXPECT_EQ(layers["saves"].size(), 3u);
    for (std::size_t i = 0; i < layers["saves"].size(); ++i) {
      EXPECT_TRUE(copied["saves"][i]["copied"].get<bool>());
      EXPECT_FALSE(layers["saves"][i]["copied"].get<bool>());
      EXPECT_GE(layers["saves"][i]["expected_stall_seconds"].get<double>(), 0);
    }
    for (const char* step : {"step-2", "step-4", "step-6", "step-7"})
      for (const char* file : {"model.safetensors", "optimizer.safetensors"})
        EXPECT_TRUE(file_text(folder_.path() / "copied" / step / file) ==
                    file_text(folder_.path() / "layers" / step / file))
            << step << "/" << file;
    for (const char* folder : {"text", "copied", "layers"}) fs::remove_all(folder_.path() / folder);
  }
}

TEST_F(CheckpointsTest, AKilledRunGoesOnToTheBitsOfOneThatNeverWas) {
  const std::string more = " --set run.steps=30 --set optimizer.schedule=cosine --set optimizer.warmup_steps=4";
  const nlohmann::json whole = json("run s.toml --json --save whole" + more);
  std::mt19937 random(5);
  for (int kill = 0; kill < 6; ++kill) {
    ChildProcess run(folder_.path(), {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--resume", "auto", "--set",
                                      "run.steps=30", "--set", "optimizer.schedule=cosine", "--set",
                                      "optimizer.warmup_steps=4", "--set", "log.metrics=m.jsonl"});
    // Some while after it began to train, or in the midst of its start.
    if (kill > 0) run.out_until("\nstep ");
    int moments = static_cast<int>(random() % 60);
    run.read_until([&] { return moments-- <= 0; });
    run.send(SIGKILL);
    run.finish();
  }
  const Outcome last = run("run s.toml --resume auto --set log.metrics=m.jsonl" + more);
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(saved(), (Names{"step-28", "step-30"}));
  std::ifstream metrics(folder_.path() / "m.jsonl");
  std::string line;
  std::size_t count = 0;
  for (; std::getline(metrics, line); ++count) {
    const nlohmann::json now = nlohmann::json::parse(line), before = whole["steps"].at(count);
    for (const char* key : {"step", "loss", "gradient_norm", "learning_rate", "skipped"})
      EXPECT_EQ(now[key], before[key]) << line;
  }
  EXPECT_EQ(count, 30u);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(file_text(folder_.path() / "c/step-30" / file), file_text(folder_.path() / "whole/step-30" / file));
}

TEST_F(CheckpointsTest, AutoBeginsOrGoesOnOrHasNothingToDo) {
  const Outcome first = run("run s.toml --steps 3 --resume auto --allow-changed learning_rate");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_MENTIONS(first.err, "--resume auto: ");
  EXPECT_MENTIONS(first.err, "has no checkpoint; the run begins with step 1");
  const Outcome second = run("run s.toml --steps 5 --resume auto");
  EXPECT_MENTIONS(second.out, "resumed after step 3 of ");
  EXPECT_EQ(second.out.find("\nstep     3"), std::string::npos);
  EXPECT_MENTIONS(second.out, "saved step 5 to ");
  const Outcome third = run("run s.toml --steps 5 --resume auto");
  EXPECT_EQ(third.code, 0);
  EXPECT_MENTIONS(third.out, "nothing to train: ");
  EXPECT_EQ(json("run s.toml --steps 4 --resume auto --json")["steps"].size(), 0u);
}

TEST_F(CheckpointsTest, AutoAlsoGoesOnFromTheOneFolderOfARunThatSavesAtItsEnd) {
  folder_.write("s.toml", kScenario);
  EXPECT_EQ(run("run s.toml --steps 2 --save c --resume auto").code, 0);
  EXPECT_EQ(json("run s.toml --steps 5 --save c --resume auto --json")["steps"].size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(file_text(folder_.path() / "c/run.json"))["step"], 5);
  expect_error("run s.toml --resume auto", 2, "--resume auto: goes on from what the run saves, and it saves nothing");
  // Damage is no reason to begin again and to replace what is there.
  folder_.write("c/run.json", "{}");
  EXPECT_EQ(run("run s.toml --steps 5 --save c --resume auto").code, 2);
}

TEST_F(CheckpointsTest, WhatIsNotWholeIsPassedOver) {
  EXPECT_EQ(run("run s.toml --steps 4").code, 0);
  fs::resize_file(folder_.path() / "c/step-4/model.safetensors", 1000);
  const Outcome outcome = run("run s.toml --steps 6 --resume auto");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.err, "step-4 is not whole and is passed over: ");
  EXPECT_MENTIONS(outcome.out, "resumed after step 2 of ");
  EXPECT_EQ(saved(), (Names{"step-4", "step-6"}));
  EXPECT_EQ(run("run s.toml --steps 1 --resume c/step-4 --save d").code, 0);  // the new one is whole
}

TEST_F(CheckpointsTest, WhatIsOfAnotherVersionIsNoReasonToBeginAgain) {
  EXPECT_EQ(run("run s.toml --steps 2").code, 0);
  folder_.write("c/step-2/run.json", R"({"format": "penstock-checkpoint/9"})");
  expect_error("run s.toml --steps 4 --resume auto", 2, "found \"penstock-checkpoint/9\", this program reads");
  expect_error("run s.toml --steps 4", 2, "found \"penstock-checkpoint/9\"");
  EXPECT_EQ(saved(), Names{"step-2"});
}

TEST_F(CheckpointsTest, WhatCannotBeSavedNowIsTriedAgainLater) {
  fs::create_directory(folder_.path() / "c");
  folder_.write("c/step-4", "in the way");
  const Outcome outcome = run("run s.toml --steps 7");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(
      outcome.err,
      "step 4 is not saved, and training goes on; the checkpoint of step 2 stands, the next attempt is after "
      "step 6. c/step-4: cannot be saved to");
  EXPECT_EQ(saved(), (Names{"step-4", "step-6", "step-7"}));
  EXPECT_EQ(file_text(folder_.path() / "c/step-4"), "in the way");
}

TEST_F(CheckpointsTest, AnotherRunsCheckpointsAreNotMixedWithItsOwn) {
  EXPECT_EQ(run("run s.toml --steps 4").code, 0);
  expect_error("run s.toml --steps 4", 2, "it holds a checkpoint of step 4, and this run begins after step 0");
  expect_error("run s.toml --steps 4 --resume c/step-2", 2, "and this run begins after step 2; --resume auto");
  EXPECT_EQ(saved(), (Names{"step-2", "step-4"}));
  EXPECT_EQ(run("run s.toml --steps 1 --save single --set checkpoint.every=1").code, 0);
  expect_error("run s.toml --save c/step-2", 2, "it is itself a checkpoint");
  // A run that is refused leaves nothing behind.
  expect_error("run s.toml --save new --allow-changed seed", 2, "give --resume FOLDER");
  EXPECT_FALSE(fs::exists(folder_.path() / "new"));
}

TEST_F(CheckpointsTest, NothingThatIsReadIsReplaced) {
  EXPECT_EQ(run("run s.toml --steps 2").code, 0);
  expect_error("run s.toml --set init.weights=c/step-2", 2, "would replace what this command reads");
  expect_error("run s.toml --resume auto --steps 3 --set log.metrics=s.toml", 2,
               "would replace what this command reads");
  expect_error("run s.toml --resume auto --steps 3 --set log.metrics=c/m", 2, "which is written as a whole");
  expect_error("run s.toml --resume auto --steps 3 --timeline m --set log.metrics=m", 2, "would be written twice");
  expect_error("run s.toml --set checkpoint.folder=nowhere/c", 2, "no folder can be made");
  folder_.write("s.toml", std::string(kScenario) + "[checkpoint]\nevery = 2\n");
  expect_error("run s.toml", 2, "[checkpoint] every: there is no folder to save to");
}

TEST_F(CheckpointsTest, AScheduleThatChangedIsRefused) {
  const std::string cosine = " --set optimizer.schedule=cosine --set optimizer.total_steps=9";
  EXPECT_EQ(run("run s.toml --steps 2" + cosine).code, 0);
  expect_error("run s.toml --steps 4 --resume auto", 2, "optimizer.schedule is \"cosine\" in the checkpoint");
  EXPECT_EQ(run("run s.toml --steps 4 --resume auto" + cosine).code, 0);
}

TEST_F(CheckpointsTest, AWishToEndIsHeardBetweenSaves) {
  ChildProcess run(folder_.path(), {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--set", "run.steps=100000000", "--set",
                                    "checkpoint.every=1"});
  run.out_until("saved step 3 to");
  run.send(SIGTERM);
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_MENTIONS(run.out(), "stopped after step ");
  EXPECT_EQ(saved().size(), 2u);
  const std::string newest =
      "step-" + std::to_string(std::stoll(run.out().substr(run.out().rfind("stopped after step ") + 19)));
  EXPECT_TRUE(saved().contains(newest)) << newest;
}

}  // namespace
}  // namespace penstock::exec
