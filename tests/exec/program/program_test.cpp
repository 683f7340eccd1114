// penstock-exec as people and scripts meet it: exit codes, one paragraph on standard error, JSON on standard output.
#include <cstdlib>
#include <set>
#include <string>

#include "shared/compare/recording.h"
#include "shared/ir/schedule_json.h"
#include "shared/machine/profile.h"
#include "tests/exec/program/program_fixture.h"

namespace penstock::exec {
namespace {

TEST_F(ProgramTest, RunReportsEveryStepInJson) {
  const nlohmann::json result = json("run s.toml --json");
  ASSERT_EQ(result["steps"].size(), 4u);
  EXPECT_EQ(result["steps"][3]["step"], 4);
  // Random ids of 256: the loss stays about log(256) = 5.55.
  EXPECT_NEAR(result["steps"][0]["loss"].get<double>(), 5.55, 0.1);
  EXPECT_EQ(result["tokens_per_step"], 128);
  EXPECT_EQ(result["backend"], "host");
  EXPECT_FALSE(result["stopped"]);
  EXPECT_TRUE(result.contains("steady"));  // 3 steps after warm-up: two periods
}

TEST_F(ProgramTest, RunPlansWithinWhatItMayUse) {
  const Outcome outcome = run("run s.toml --steps 1");
  EXPECT_NE(outcome.out.find("\nplanned: micro-batch 2, "), std::string::npos) << outcome.out;
  // The planner takes all the room there is, or no more than it was given; the losses are the same.
  const nlohmann::json roomy = json("run s.toml --json");
  const nlohmann::json tight = json("run s.toml --json --hbm-limit 1500KiB");
  EXPECT_GT(roomy["memory"][0]["arena_bytes"].get<int>(), 1500 << 10);
  EXPECT_LE(tight["memory"][0]["arena_bytes"].get<int>(), 1500 << 10);
  EXPECT_EQ(tight["steps"], roomy["steps"]);
  // Other presets are what they are.
  const Outcome megatrain = run("run s.toml --steps 1 --set policy.name=megatrain");
  EXPECT_EQ(megatrain.out.find("planned"), std::string::npos);
}

TEST_F(ProgramTest, RunSaysWhatArenasCouldTakeAndWhatLayBesideThem) {
  const nlohmann::json result = json("run s.toml --json --hbm-limit 1500KiB");
  EXPECT_EQ(result["memory"][0]["usable_bytes"], 1500 << 10);
  for (const nlohmann::json& tier : result["memory"]) EXPECT_LE(tier["arena_bytes"], tier["usable_bytes"]);
  EXPECT_GT(result["beside_arenas"]["host_counted_bytes"], 0);
  EXPECT_EQ(result["beside_arenas"]["gpu_bytes"], 0);
  EXPECT_TRUE(result["beside_arenas"]["machine_bytes"].is_number());
  const Outcome outcome = run("run s.toml --steps 1");
  EXPECT_NE(outcome.out.find("beside the arenas: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" usable: "), std::string::npos) << outcome.out;
  // What is kept for the system counts on the machine that the scenario has.
  EXPECT_LT(json("run s.toml --json --set machine.context=\"1 MiB\"")["memory"][0]["usable_bytes"],
            json("run s.toml --json")["memory"][0]["usable_bytes"]);
}

TEST_F(ProgramTest, WhatDoesNotFitNamesTheKeyThatWouldMakeItFit) {
  expect_error("run s.toml --set policy.name=resident --set machine.hbm=\"2 MiB\"", 3,
               "One key makes it fit: policy.name = \"penstock\" (");
}

TEST_F(ProgramTest, ResumedStepsAreThoseOfOneRun) {
  const nlohmann::json whole = json("run s.toml --json");
  json("run s.toml --steps 2 --save c --json");
  const nlohmann::json rest = json("run s.toml --steps 2 --resume c --save c --json");
  EXPECT_EQ(rest["steps"][0], whole["steps"][2]);
  EXPECT_EQ(rest["steps"][1], whole["steps"][3]);
}

TEST_F(ProgramTest, AScheduleFileIsForTheScenariosMicroBatch) {
  EXPECT_EQ(run("run s.toml --steps 1 --timeline m.json").code, 0);
  const nlohmann::json timeline = nlohmann::json::parse(file_text(folder_.path() / "m.json"));
  const std::string file = "schedule-" + timeline["schedule_hash"].get<std::string>() + ".json";
  EXPECT_EQ(run("run s.toml --steps 1 --schedule " + file).code, 0);
  // As many sequences per step, dealt otherwise: other bits than the scenario's.
  expect_error("run s.toml --set workload.micro_batch=1 --schedule " + file, 2,
               "the schedule is for micro-batch 2, but s.toml has 1");
  expect_error("run s.toml --set workload.sequences=8 --schedule " + file, 2,
               "the schedule is for sequences per step 4, but s.toml has 8");
}

TEST_F(ProgramTest, TimelineHasTheScheduleBesideIt) {
  EXPECT_EQ(run("run s.toml --timeline m.json").code, 0);
  const nlohmann::json timeline = nlohmann::json::parse(file_text(folder_.path() / "m.json"));
  const std::string name = "schedule-" + timeline["schedule_hash"].get<std::string>() + ".json";
  const nlohmann::json schedule = nlohmann::json::parse(file_text(folder_.path() / name));
  EXPECT_EQ(timeline["ops"].size(), 4 * schedule["ops"].size());
  EXPECT_EQ(timeline["warmup_steps"], 1);
  // The file runs as the policy's own schedule does.
  const nlohmann::json again = json("run s.toml --schedule " + name + " --json");
  EXPECT_EQ(again["schedule"], timeline["schedule_hash"]);
}

TEST_F(ProgramTest, CompareLeavesWhatPenstockSimCompares) {
  const nlohmann::json result = json("run s.toml --compare c/d --json");
  const nlohmann::json& comparison = result["comparison"];
  EXPECT_EQ(comparison["schedule"], result["schedule"]);
  EXPECT_EQ(comparison["measured_periods"], 3);  // four steps, one of them to warm up
  EXPECT_EQ(comparison["step_seconds"]["measured"], result["steady"]["step_seconds"]);
  EXPECT_NEAR(comparison["step_seconds"]["predicted"].get<double>(),
              result["steady"]["predicted_step_seconds"].get<double>(), 1e-9);
  const fs::path folder = folder_.path() / "c/d";
  EXPECT_EQ(nlohmann::json::parse(file_text(folder / "comparison.json")), comparison);
  EXPECT_NE(file_text(folder / "report.html").find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(file_text(folder / "predicted.json"))["source"], "predicted");
  EXPECT_EQ(nlohmann::json::parse(file_text(folder / "measured.json"))["source"], "measured");
  EXPECT_TRUE(fs::exists(folder / "schedule.json"));
  expect_error("run s.toml --compare c --steps 1", 2, "needs a steady period");
  expect_error("run s.toml --compare s.toml/x", 2, "s.toml/x");
}

TEST_F(ProgramTest, RecordsWhatCanBePredictedLater) {
  expect_error("run s.toml --record r.json", 2, "penstock-exec calibrate");
  Profile profile;
  profile.machine = read_hardware(folder_.path() / "machine.toml");
  profile.date = "2026-01-02T03:04:05Z";
  profile.host = "desk";
  write_profile_file(profile, folder_.path() / "p.json");
  const nlohmann::json result = json("run s.toml --profile p.json --set policy.name=megatrain --record r.json --json");
  const Recording recording = read_recording(folder_.path() / "r.json");
  EXPECT_EQ(recording.step_seconds, result["steady"]["step_seconds"]);
  EXPECT_EQ(recording.schedule_hash, result["schedule"]);
  EXPECT_EQ(recording.profile, "p.json");
  EXPECT_EQ(recording.periods, 3);
  // What was recorded leads back to the same schedule.
  const Scenario scenario = recorded_scenario(recording, folder_.path() / "r.json");
  EXPECT_EQ(schedule_hash(make_schedule(scenario.policy_input())), recording.schedule_hash);
  expect_error("run s.toml --profile p.json --record r.json --steps 1", 2, "run.steps is 1");
  expect_error("run s.toml --profile p.json --record no/r.json", 2, "does not exist");
}

TEST_F(ProgramTest, CalibratesOneScenarioForTheHost) {
  expect_error("calibrate s.toml s.toml -o p.json", 2, "one scenario at a time");
}

TEST_F(ProgramTest, BadUsageExitsWithTwoAndNamesTheProgram) {
  expect_error(
      "", 2, "penstock-exec: which command? run, calibrate, export or devices; `penstock-exec --help` has examples\n");
  expect_error("run", 2,
               "penstock-exec: SCENARIO is required; `penstock-exec --help` and `penstock-exec COMMAND --help`");
  expect_error("run s.toml devices", 2, "penstock-exec: run takes no further argument \"devices\"");
  EXPECT_EQ(run("run --help").code, 0);
}

TEST_F(ProgramTest, AMistypedCommandOrOptionNamesTheNearest) {
  expect_error("calibrat s.toml", 2, "there is no command \"calibrat\"; did you mean calibrate?");
  expect_error("train s.toml", 2, "there is no command \"train\"; commands are run, calibrate, export or devices");
  expect_error("run s.toml --stepz 5", 2, "run has no option --stepz; did you mean --steps?");
  expect_error("run --stepz=5", 2, "run has no option --stepz; did you mean --steps?");  // what is required can wait
  expect_error("run s.toml --hbm_limit 1GiB", 2, "did you mean --hbm-limit?");
  expect_error("run s.toml --learning-rate 1", 2, "run has no option --learning-rate; `penstock-exec --help`");
  expect_error("run s.toml --backend Host", 2,
               "--backend: expected host, cuda or auto, found \"Host\"; did you mean host?");
  expect_error("run s.tmol", 2, "s.tmol");
}

/// Whatever option or argument: a script whose variable is empty means something else than leaving it away.
TEST_F(ProgramTest, EmptyValuesAreRefused) {
  for (const std::string option : {"profile", "set", "schedule", "timeline", "record", "compare", "save", "dump",
                                   "resume", "backend", "hbm-limit", "steps", "watchdog"}) {
    const Outcome outcome = run("run s.toml --" + option + " \"\"");
    EXPECT_EQ(outcome.code, 2) << option << outcome.err;
    EXPECT_NE(outcome.err.find("--" + option), std::string::npos) << outcome.err;
    EXPECT_EQ(run("run s.toml --" + option + "= --json").code, 2) << option;
  }
  expect_error("run s.toml --save \"\"", 2, "run --save: expected a FOLDER, found an empty text");
  expect_error("run s.toml --save= --steps 1", 2, "--save=: expected a value behind the =, found none");
  expect_error("run \"\"", 2, "run SCENARIO: expected a value, found an empty text");
  expect_error("calibrate s.toml \"\" -o p.json", 2, "calibrate SCENARIO: expected a value, found an empty text");
  expect_error("calibrate s.toml -o \"\"", 2, "calibrate --output: expected a FILE, found an empty text");
  expect_error("calibrate s.toml -o p.json --nvme \"\"", 2, "--nvme");
}

TEST_F(ProgramTest, WhatTheSystemRefusesIsASentence) {
  expect_error("run s.toml --save " + std::string(5000, 'a'), 2,
               "aaa...: cannot be saved to: its name is 4754 bytes too long");
  fs::create_symlink("loop", folder_.path() / "loop");
  expect_error("run loop", 2, "loop: cannot be read: Too many levels of symbolic links");
  expect_error("run s.toml --save loop/c", 2, "loop cannot be opened: Too many levels of symbolic links");
  expect_error("run s.toml/x --save c", 2, "s.toml/x: cannot be read: Not a directory");
}

TEST_F(ProgramTest, BadInputExitsWithTwo) {
  expect_error("run no.toml", 2, "no.toml");
  expect_error("run s.toml --set policy.nme=penstock", 2, "nme");
  expect_error("run s.toml --backend gpu", 2, "--backend");
  expect_error("run s.toml --steps 0", 2, "--steps");
  expect_error("run s.toml --hbm-limit 24", 2, "--hbm-limit");
  expect_error("run s.toml --backend cuda", 2, "has no GPU");
  expect_error("run s.toml --schedule no.json", 2, "no.json");
  expect_error("run s.toml --save no/such", 2, "does not exist");
  expect_error("run s.toml --timeline no/such.json", 2, "does not exist");
  expect_error("run s.toml --resume no", 2, "run.json");
  expect_error("run s.toml --set data.file=s.toml --set workload.sequence_length=511", 2, "bytes of data, there are");
  expect_error("run s.toml --set init.weights=no.safetensors", 2, "no.safetensors");
  expect_error("calibrate s.toml -o no/such.json", 2, "does not exist");
  expect_error("calibrate s.toml -o s.toml", 2, "name another place");
  expect_error("calibrate s.toml -o p.json --nvme no/such", 2, "--nvme no/such: No such file or directory");
  expect_error("calibrate -o p.json", 2, "expected a SCENARIO, or --profile and --nvme to measure only the drive");
  expect_error("calibrate --profile p.json -o q.json", 2, "only a drive is measured into a profile; expected --nvme");
  expect_error("calibrate s.toml --profile p.json --nvme . -o q.json", 2, "leave out SCENARIO, --set and --backend");
  expect_error("calibrate --profile no/such.json --nvme . -o q.json", 2, "no/such.json: cannot be read");
  expect_error("run s.toml --timeline s.toml", 2, "name another place");
  expect_error("run s.toml --save c --timeline c", 2, "written twice");
  expect_error("run s.toml --hbm-limit 0B", 2, "more than zero");
  expect_error("run s.toml --watchdog nan", 2, "expected a number");
}

/// A small Llama config with more members.
std::string model_with(const std::string& type, const std::string& members) {
  return "{\"model_type\": \"" + type +
         "\", \"hidden_size\": 64, \"intermediate_size\": 176, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
         "\"num_key_value_heads\": 2, \"vocab_size\": 256, \"max_position_embeddings\": 64, \"head_dim\": 16" +
         members + "}";
}

TEST_F(ProgramTest, WhatNoSequenceReachesChangesNothing) {
  const auto losses = [&](const std::string& type, const std::string& members) {
    folder_.write("model.json", model_with(type, members));
    return json("run s.toml --steps 2 --set policy.name=megatrain --json")["steps"];
  };
  const nlohmann::json plain = losses("llama", "");
  // Sequences have 32 tokens; without a window and biases Mistral is Llama.
  EXPECT_EQ(losses("mistral", ", \"sliding_window\": null"), plain);
  EXPECT_EQ(losses("mistral", ", \"sliding_window\": 32"), plain);
  EXPECT_EQ(losses("mistral", ""), plain);                                                          // 4096
  EXPECT_EQ(losses("llama", ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}"), plain);  // from 65 on
  EXPECT_EQ(losses("llama", ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 1}"), plain);
  const nlohmann::json qwen = losses("qwen2", "");
  EXPECT_NE(qwen, plain);
  EXPECT_EQ(losses("qwen2", ", \"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 3"), qwen);
  EXPECT_EQ(losses("qwen2", ", \"use_sliding_window\": false, \"sliding_window\": 8, \"max_window_layers\": 0"), qwen);
}

TEST_F(ProgramTest, WhatASequenceReachesChangesTheLoss) {
  std::set<std::string> losses;
  const auto train = [&](const std::string& type, const std::string& members) {
    folder_.write("model.json", model_with(type, members));
    return json("run s.toml --steps 2 --set policy.name=megatrain --json")["steps"].dump();
  };
  for (const char* window : {"null", "31", "1"})
    EXPECT_TRUE(losses.insert(train("mistral", std::string(", \"sliding_window\": ") + window)).second) << window;
  for (const char* rope : {"{\"type\": \"linear\", \"factor\": 4}", "{\"rope_type\": \"yarn\", \"factor\": 4}",
                           "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16}"})
    EXPECT_TRUE(losses.insert(train("llama", std::string(", \"rope_scaling\": ") + rope)).second) << rope;
  losses.clear();
  for (const char* layers : {"3", "2", "1"})
    EXPECT_TRUE(losses
                    .insert(train("qwen2", std::string(", \"use_sliding_window\": true, \"sliding_window\": 8, "
                                                       "\"max_window_layers\": ") +
                                               layers))
                    .second)
        << layers;
}

TEST_F(ProgramTest, WhatIsNotComputedIsRefused) {
  folder_.write("model.json", model_with("llama", ", \"rope_scaling\": {\"type\": \"longrope\"}"));
  expect_error("run s.toml --steps 2 --set policy.name=megatrain", 2, "s.toml: model has rope_type \"longrope\"");
}

TEST_F(ProgramTest, AScheduleOfSuchAModelIsRefusedToo) {
  EXPECT_EQ(run("run s.toml --compare c").code, 0);
  // The plan of a model that is the same but for its frequencies.
  std::string text = file_text(folder_.path() / "c/schedule.json");
  const std::string before = "\"rope_original_positions\": 8192";
  ASSERT_NE(text.find(before), std::string::npos);
  text.replace(text.find(before), before.size(),
               before +
                   ", \"rope_scaling\": \"longrope\", \"rope_attention_factor\": 1, "
                   "\"rope_truncate\": true");
  folder_.write("scaled.json", text);
  expect_error("run s.toml --schedule scaled.json", 2, "the schedule is for model");
  std::string model = file_text(folder_.path() / "model.json");
  model.insert(model.rfind('}'), ", \"rope_parameters\": {\"type\": \"longrope\"}");
  folder_.write("model.json", model);
  expect_error("run s.toml --schedule scaled.json", 2, "rope_type \"longrope\"");
}

TEST_F(ProgramTest, SequencesBeyondTheModelsPositionsAreSaid) {
  folder_.write("model.json", model_with("llama", ""));
  const Outcome outcome = run("run s.toml --steps 1 --set policy.name=megatrain --set workload.sequence_length=65");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("penstock-exec: note: sequences of 65 tokens are longer than model's "
                             "max_position_embeddings = 64"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(run("run s.toml --steps 1 --set policy.name=megatrain --set workload.sequence_length=64").err, "");
}

TEST_F(ProgramTest, ScheduleOfAnotherWorkloadIsRefused) {
  const nlohmann::json result = json("run s.toml --steps 1 --timeline m.json --json");
  const std::string name = "schedule-" + result["schedule"].get<std::string>() + ".json";
  expect_error("run s.toml --schedule " + name + " --set workload.sequences=8", 2, "sequences per step");
}

TEST_F(ProgramTest, TooLittleMemoryExitsWithThree) { expect_error("run s.toml --hbm-limit 64KiB", 3, "hbm"); }

TEST_F(ProgramTest, DevicesAlwaysHasTheHost) {
  EXPECT_GE(json("devices --json")["cores"].get<int>(), 1);
  EXPECT_NE(run("devices").out.find("backend host  always usable"), std::string::npos);
}

TEST_F(ProgramTest, StartsAndSaysSoWhereCudnnIsMissing) {
  folder_.write("libcudnn.so.9", "not a library");
  ::setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
  const nlohmann::json devices = json("devices --json");
  const Outcome said = run("devices");
  ::unsetenv("LD_LIBRARY_PATH");
  if (!devices.contains("cuda_attention")) GTEST_SKIP() << "built without CUDA";
  EXPECT_EQ(devices["cuda_attention"], "own");
  EXPECT_NE(said.out.find("kernels of our own, for cuDNN is missing"), std::string::npos) << said.out;
}

TEST_F(ProgramTest, EnvironmentChoosesTheInstructionSet) {
  const auto with = [&](const char* wanted, const char* arguments) {
    ::setenv("PENSTOCK_CPU_TARGET", wanted, 1);
    const Outcome outcome = run(arguments);
    ::unsetenv("PENSTOCK_CPU_TARGET");
    return outcome;
  };
  EXPECT_NE(with("baseline", "devices").out.find("  kernels     baseline"), std::string::npos);
  const Outcome refused = with("sse9", "run s.toml --steps 1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("PENSTOCK_CPU_TARGET is \"sse9\"; it is baseline, avx2 or avx512"), std::string::npos)
      << refused.err;
}

TEST_F(ProgramTest, InterruptEndsAtAStepAndSaves) {
  // timeout sends the signal after a second, when nothing is planned any more; the run would last for hours. It exits
  // by itself, with what was done. timeout sends it to the program and to its group: two signals at once are one stop.
  const std::string command =
      "cd '" + folder_.path().string() +
      "' && timeout -s INT 1 " PENSTOCK_EXEC_PROGRAM
      " run s.toml --set policy.name=megatrain --set run.steps=100000000 --save c --json >out 2>err";
  std::system(command.c_str());
  const nlohmann::json result = nlohmann::json::parse(file_text(folder_.path() / "out"));
  EXPECT_TRUE(result["stopped"]);
  const nlohmann::json checkpoint = nlohmann::json::parse(file_text(folder_.path() / "c/run.json"));
  EXPECT_EQ(checkpoint["step"], result["steps"].size());
}

}  // namespace
}  // namespace penstock::exec
