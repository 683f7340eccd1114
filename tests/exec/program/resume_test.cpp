// What penstock-exec run says and refuses when it goes on from a checkpoint.
#include <algorithm>
#include <set>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

/// The scenario's model, but for the keys in `changes`.
std::string model_text(const fs::path& file, const nlohmann::json& changes) {
  nlohmann::json model = nlohmann::json::parse(file_text(file));
  for (const auto& [key, value] : changes.items()) model[key] = value;
  return model.dump();
}

class ResumeTest : public ProgramTest {
 protected:
  ResumeTest() { json("run s.toml --steps 2 --save c --json"); }
  Outcome resume(const std::string& more) const { return run("run s.toml --steps 1 --resume c " + more); }
};

TEST_F(ResumeTest, AnotherModelOfTheSameSizeIsRefusedByKey) {
  const fs::path model = folder_.path() / "model.json";
  const nlohmann::json config = nlohmann::json::parse(file_text(model));
  const int heads = config["num_attention_heads"], kv_heads = config["num_key_value_heads"], dim = config["head_dim"];
  ASSERT_EQ(dim % 4, 0);
  folder_.write("heads.json", model_text(model, {{"num_attention_heads", heads * 2},
                                                 {"num_key_value_heads", kv_heads * 2},
                                                 {"head_dim", dim / 2}}));
  expect_error("run s.toml --steps 1 --resume c --set model.config=heads.json", 2,
               "num_attention_heads is " + std::to_string(heads) + " in the checkpoint, " + std::to_string(heads * 2) +
                   " now; num_key_value_heads is " + std::to_string(kv_heads) + " in the checkpoint");
  folder_.write("epsilon.json", model_text(model, {{"rms_norm_eps", 1e-3}}));
  expect_error("run s.toml --steps 1 --resume c --set model.config=epsilon.json", 2, "rms_norm_eps is");
  folder_.write("rope.json", model_text(model, {{"rope_theta", 77.0}}));
  expect_error("run s.toml --steps 1 --resume c --set model.config=rope.json", 2, "rope_theta is");
  expect_error("run s.toml --steps 1 --resume c --set model.config=heads.json --allow-changed num_attention_heads", 2,
               "cannot be allowed");
  // Longer sequences are what another rope_theta is for.
  EXPECT_EQ(resume("--set model.config=rope.json --allow-changed rope_theta").code, 0);
}

TEST_F(ResumeTest, EveryDifferenceIsNamedAtOnce) {
  const Outcome outcome = resume(
      "--set data.seed=9 --set optimizer.learning_rate=0.5 --set workload.sequences=8 --set policy.moments=bf16");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_MENTIONS(outcome.err, "data.seed is 1 in the checkpoint, 9 now");
  EXPECT_MENTIONS(outcome.err, "optimizer.learning_rate is 0.0003 in the checkpoint, 0.5 now");
  EXPECT_MENTIONS(outcome.err, "workload.sequences is 4 in the checkpoint, 8 now");
  EXPECT_MENTIONS(outcome.err, "policy.moments is \"fp32\" in the checkpoint, \"bf16\" now");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

TEST_F(ResumeTest, OtherDataIsRefused) {
  folder_.write("a.txt", std::string(500, 'a'));
  folder_.write("b.txt", std::string(499, 'a') + 'b');
  expect_error("run s.toml --steps 1 --resume c --set data.file=a.txt", 2, "data.file is \"random\" in the checkpoint");
  EXPECT_EQ(run("run s.toml --steps 1 --set data.file=a.txt --save d").code, 0);
  expect_error("run s.toml --steps 1 --set data.file=b.txt --resume d", 2, "data.file is \"crc32:");
  // The same bytes elsewhere are the same data.
  fs::rename(folder_.path() / "a.txt", folder_.path() / "moved.txt");
  EXPECT_EQ(run("run s.toml --steps 1 --set data.file=moved.txt --resume d").code, 0);
}

TEST_F(ResumeTest, WhatIsMeantIsAllowedAndSaid) {
  const Outcome outcome =
      resume("--set optimizer.learning_rate=0.5 --allow-changed optimizer.learning_rate --allow-changed seed");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.out, "changed since then, as allowed: learning_rate was 0.0003, is 0.5\n");
  EXPECT_MENTIONS(outcome.out, "--allow-changed seed: not needed, it is as it was\n");
  const nlohmann::json result =
      json("run s.toml --steps 1 --resume c --set optimizer.learning_rate=0.5 --allow-changed learning_rate --json");
  EXPECT_EQ(result["resumed"]["step"], 2);
  EXPECT_EQ(result["resumed"]["from"], "c");
  ASSERT_EQ(result["resumed"]["changed"].size(), 1u);
  EXPECT_EQ(result["resumed"]["changed"][0]["key"], "learning_rate");
  EXPECT_EQ(result["resumed"]["changed"][0]["before"], 3e-4);
  EXPECT_EQ(result["resumed"]["changed"][0]["now"], 0.5);
  // What was allowed stands in the next checkpoint: going on from that needs no permission, going back does.
  EXPECT_EQ(resume("--set optimizer.learning_rate=0.5 --allow-changed learning_rate --save d").code, 0);
  EXPECT_EQ(run("run s.toml --steps 1 --resume d --set optimizer.learning_rate=0.5").code, 0);
  expect_error("run s.toml --steps 1 --resume d", 2, "optimizer.learning_rate is 0.5 in the checkpoint");
}

TEST_F(ResumeTest, PermissionsThatAreNoneAreRefused) {
  expect_error("run s.toml --resume c --allow-changed lerning_rate", 2, "did you mean learning_rate?");
  expect_error("run s.toml --resume c --allow-changed group", 2, "decides nothing that a checkpoint holds");
  expect_error("run s.toml --resume c --allow-changed hidden_size", 2, "cannot be allowed");
  expect_error("run s.toml --allow-changed seed", 2, "give --resume FOLDER");
}

TEST_F(ResumeTest, TheScheduleMayDiffer) {
  const nlohmann::json planned = json("run s.toml --steps 1 --resume c --json");
  // Other memory, another group, another place of AdamW: the same mathematics.
  for (const std::string& other :
       {std::string("--hbm-limit 1500KiB"), std::string("--set policy.group=1"),
        std::string("--set policy.optimizer_place=gpu"), std::string("--set policy.name=resident")}) {
    const nlohmann::json result = json("run s.toml --steps 1 --resume c --json " + other);
    EXPECT_EQ(result["steps"], planned["steps"]) << other;
  }
}

TEST_F(ResumeTest, APlannerKeepsTheChunksOfTheCheckpoint) {
  // A micro-batch has 64 tokens; left open, the planner would take all of them at a time.
  json("run s.toml --steps 1 --set policy.mlp_chunk_tokens=16 --save d --json");
  const nlohmann::json result = json("run s.toml --steps 1 --resume d --save e --json");
  const nlohmann::json record = nlohmann::json::parse(file_text(folder_.path() / "e/run.json"));
  EXPECT_EQ(record["decides"]["mlp_chunk_tokens"], 16);
  EXPECT_EQ(result["resumed"]["changed"].size(), 0u);
  expect_error("run s.toml --steps 1 --resume d --set policy.mlp_chunk_tokens=0", 2, "policy.mlp_chunk_tokens is 16");
}

/// Two steps are behind the checkpoint: what is recorded now are steps 2 and 3, counted from 0.
TEST_F(ResumeTest, ARecordingGoesOnCounting) {
  json("run s.toml --steps 2 --resume c --timeline t.json --json");
  const nlohmann::json timeline = nlohmann::json::parse(file_text(folder_.path() / "t.json"));
  EXPECT_EQ(timeline["first_step"], 2);
  EXPECT_EQ(timeline["steps"], 2);
  std::set<int> steps;
  for (const nlohmann::json& op : timeline["ops"]) steps.insert(op[0].get<int>());
  EXPECT_EQ(steps, (std::set<int>{2, 3}));
}

TEST_F(ResumeTest, TheFirstFormatIsRefusedWithAWayOn) {
  folder_.write("c/run.json", R"({"format": "penstock-checkpoint/1", "step": 2, "seed": "1", "states": "planes",
                                  "model": "model", "parameters": 106816})");
  expect_error("run s.toml --resume c", 2, "c/run.json: is a penstock-checkpoint/1, which does not say");
  // The way on that it names.
  EXPECT_EQ(run("run s.toml --steps 1 --set init.weights=c").code, 0);
}

TEST_F(ResumeTest, TheFolderThatOneStandsInCanBeRead) {
  const std::string place = "cd c && " PENSTOCK_EXEC_PROGRAM " run ../s.toml --steps 1 --resume ";
  for (const char* here : {".", "./", "../c", "../c/."})
    EXPECT_EQ(std::system(("cd '" + folder_.path().string() + "' && " + place + here + " >out 2>err").c_str()), 0)
        << here;
}

TEST_F(ResumeTest, WeightsThatAreNotReadAreSaid) {
  const Outcome outcome = resume("--set init.weights=c");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_MENTIONS(outcome.out, "resumed after step 2 of c; [init] weights is not read\n");
}

}  // namespace
}  // namespace penstock::exec
