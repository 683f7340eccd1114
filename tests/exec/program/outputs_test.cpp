// What a run writes never destroys what it reads, and is refused before the first step if it cannot be written.
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"

namespace penstock::exec {
namespace {

class OutputsTest : public ProgramTest {
 protected:
  OutputsTest() { folder_.write("s.toml", scenario()); }

  /// Without a planner, for nothing here depends on the plan.
  static std::string scenario() {
    std::string text = kScenario;
    return text.replace(text.find("\"penstock\""), 10, "\"zero3-offload\"");
  }
  /// Every file below the folder, but for the command's own text.
  std::string everything() const {
    std::string all;
    std::set<fs::path> paths;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path()))
      if (entry.is_regular_file() && entry.path().filename() != "out" && entry.path().filename() != "err")
        paths.insert(entry.path());
    for (const fs::path& path : paths) all += path.string() + "\n" + file_text(path) + "\n";
    return all;
  }
  /// Refused before anything was written or trained.
  void expect_refused(const std::string& arguments, const std::string& part) const {
    const std::string before = everything();
    expect_error(arguments, 2, part);
    EXPECT_EQ(everything(), before) << arguments;
  }
  void shell(const std::string& command) const {
    ASSERT_EQ(std::system(("cd '" + folder_.path().string() + "' && " + command).c_str()), 0) << command;
  }
};

TEST_F(OutputsTest, FoldersOfACheckpointAreNotDumpedOrComparedInto) {
  EXPECT_EQ(run("run s.toml --steps 1 --save ck").code, 0);
  expect_refused("run s.toml --resume ck --dump ck", "lies in the folder ck");
  expect_refused("run s.toml --resume ck --dump ck/dump", "lies in the folder ck");
  expect_refused("run s.toml --resume ck --compare ck", "lies in the folder ck");
  expect_refused("run s.toml --save ck --dump ck", "lies in ck (--save)");
  expect_refused("run s.toml --save ck --compare ./ck/../ck", "lies in ck (--save)");
  expect_refused("run s.toml --save new --dump new", "lies in new (--save)");
  expect_refused("run s.toml --save new/ --compare new/deeper", "lies in new/ (--save)");
  expect_refused("run s.toml --dump ck", "holds a checkpoint");  // of another run
  expect_refused("run s.toml --resume ck --save ck/inner", "lies in the folder ck");
  expect_refused("run s.toml --set init.weights=ck --save ck", "would replace what this command reads");
  // Going on in the same folder is what both options are for.
  EXPECT_EQ(run("run s.toml --steps 1 --resume ck --save ck/../ck/").code, 0);
  EXPECT_EQ(json("run s.toml --steps 1 --resume ck --json")["steps"][0]["step"], 3);
}

TEST_F(OutputsTest, NothingGoesWhereASaveWritesBesideItsFolder) {
  for (const char* file : {"ck.lock", "ck.partial", "ck.new", "ck.previous", "./other/../CK.LOCK"}) {
    fs::create_directories(folder_.path() / "other");
    expect_refused(std::string("run s.toml --save ck --timeline ") + file, "--save ck: ck.");
  }
  for (const char* folder : {"ck.partial", "ck.new/deeper", "ck.previous", "ck.lock"}) {
    expect_refused(std::string("run s.toml --save ck --dump ") + folder, "(--save), which is written as a whole");
    expect_refused(std::string("run s.toml --save ck/ --compare ") + folder, "(--save), which is written as a whole");
  }
  EXPECT_EQ(run("run s.toml --steps 1 --save ck.new").code, 0);
  shell("cp -r ck.new ck.previous");
  expect_refused("run s.toml --resume ck.new --save ck",
                 "--save ck: ck.new, which it needs, would replace what this command reads, ck.new");
  expect_refused("run s.toml --set init.weights=ck.new/model.safetensors --save ck", "would replace");
  // A backup of that name is somebody's, and is read like any other.
  EXPECT_EQ(run("run s.toml --steps 1 --resume ck.previous --save other/ck").code, 0);
  // Without a save the names are like any other.
  EXPECT_EQ(run("run s.toml --steps 1 --timeline ck.lock").code, 0);
}

TEST_F(OutputsTest, NothingGoesIntoWhatIsReadAsAWhole) {
  EXPECT_EQ(run("run s.toml --steps 1 --save ck").code, 0);
  folder_.write("data/a.txt", std::string(4096, 'a'));
  shell("cp -r ck weights && ln -s data inner && ln -s ../ck/model.safetensors weights/linked.safetensors");
  expect_refused("run s.toml --set data.file=data --timeline data/t.json", "lies in the folder");
  expect_refused("run s.toml --set data.file=data --timeline inner/t.json", "lies in the folder");
  expect_refused("run s.toml --set data.file=data --timeline data/a.txt", "would replace");
  expect_refused("run s.toml --set data.file=data --save data/ck", "lies in the folder");
  expect_refused("run s.toml --set data.file=data/a.txt --timeline data/a.txt", "would replace");
  expect_refused("run s.toml --set init.weights=weights --timeline weights/t.json", "lies in the folder");
  expect_refused("run s.toml --set init.weights=weights --timeline weights/model.safetensors", "would replace");
  expect_refused("run s.toml --set init.weights=weights --timeline ck/model.safetensors", "would replace");
  expect_refused("run s.toml --resume ck --timeline ck/optimizer.safetensors", "would replace");
  expect_refused("run s.toml --resume ck --timeline ck/t.json", "lies in the folder");
  expect_refused("run s.toml --timeline model.json", "would replace");
  expect_refused("calibrate s.toml -o machine.toml", "would replace");
  shell("ln machine.toml hard.json");
  expect_refused("calibrate s.toml -o hard.json", "would replace");
}

TEST_F(OutputsTest, TheDefaultDataIsReadToo) {
  folder_.write("README.md", std::string(4096, 'a'));
  folder_.write("docs/a.md", "more");
  folder_.write("s.toml", scenario().erase(scenario().find("file = ")));
  expect_refused("run s.toml --timeline README.md", "would replace");
  expect_refused("run s.toml --timeline docs/a.md", "would replace");
  EXPECT_EQ(run("run s.toml --steps 1 --timeline docs/a.json").code, 0);
}

TEST_F(OutputsTest, AScheduleMayLieWhereItIsCompared) {
  EXPECT_EQ(run("run s.toml --compare d").code, 0);
  const std::string schedule = file_text(folder_.path() / "d/schedule.json");
  EXPECT_EQ(run("run s.toml --schedule d/schedule.json --compare d/../d").code, 0);
  EXPECT_EQ(file_text(folder_.path() / "d/schedule.json"), schedule);
  shell("mv d/schedule.json d/measured.json");
  expect_refused("run s.toml --schedule d/measured.json --compare d", "would replace");
}

TEST_F(OutputsTest, OneFileThatFailsLosesNoOther) {
  EXPECT_EQ(run("run s.toml --steps 1 --set policy.name=megatrain --save ck").code, 0);
  const std::string before = file_text(folder_.path() / "ck/run.json");
  // The folder gets something else while the run lasts, so that it cannot be replaced at its end.
  ChildProcess run_on(folder_.path(),
                      {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--set", "policy.name=megatrain", "--set",
                       "run.steps=100000000", "--resume", "ck", "--save", "ck", "--timeline", "t.json"});
  run_on.out_until("\nstep     2");
  folder_.write("ck/notes.txt", "years of work");
  run_on.send(SIGTERM);
  EXPECT_EQ(run_on.finish(), 1);
  EXPECT_NE(run_on.err().find("the checkpoint is finished and kept in ck.new"), std::string::npos) << run_on.err();
  EXPECT_EQ(file_text(folder_.path() / "ck/run.json"), before);
  EXPECT_GE(nlohmann::json::parse(file_text(folder_.path() / "t.json"))["steps"], 1);
  EXPECT_EQ(run_on.out().find("saved step"), std::string::npos);
  EXPECT_EQ(run("run s.toml --steps 1 --set policy.name=megatrain --resume ck").code, 0);
}

TEST_F(OutputsTest, BindMountsLeadToTheSameFolder) {
  if (std::system("unshare -Urm true 2>/dev/null") != 0) GTEST_SKIP() << "no mount namespaces here";
  folder_.write("data/deep/a.txt", std::string(4096, 'a'));
  shell("mkdir whole part");
  const std::string command =
      "unshare -Urm sh -c 'mount --bind data whole && mount --bind data/deep part && " PENSTOCK_EXEC_PROGRAM
      " run s.toml --set data.file=data --timeline ";
  for (const char* place : {"whole/t.json", "part/t.json", "part/a.txt"}) {
    EXPECT_NE(std::system(("cd '" + folder_.path().string() + "' && " + command + place + "' 2>err").c_str()), 0);
    const std::string error = file_text(folder_.path() / "err");
    EXPECT_TRUE(error.find("this command reads") != std::string::npos) << place << error;
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "data/t.json"));
}

TEST_F(OutputsTest, ADumpIsRefusedBeforeTheRunOrNotAtAll) {
  // Gradients that are used up on arrival are not there at the end.
  expect_refused("run s.toml --set policy.name=slideformer --dump d", "does not keep the gradient");
  expect_refused("run s.toml --dump s.toml", "cannot be made a folder");
  expect_refused("run s.toml --dump s.toml/d", "cannot be made a folder");
  folder_.write("full/gradients.safetensors/x", "in the way");
  expect_refused("run s.toml --dump full", "names a folder");
  EXPECT_EQ(run("run s.toml --steps 1 --dump d").code, 0);
  const std::string first = file_text(folder_.path() / "d/gradients.safetensors");
  EXPECT_EQ(run("run s.toml --steps 2 --dump d").code, 0);  // replaces its own kind, whole
  EXPECT_NE(file_text(folder_.path() / "d/gradients.safetensors"), first);
  EXPECT_EQ(file_text(folder_.path() / "d/tokens.i32").size(), 2u * 4 * 33 * 4);  // steps, sequences, length + 1, bytes
}

TEST_F(OutputsTest, ALinkPlantedAtTheTemporaryIsNotFollowed) {
  folder_.write("victim", "precious");
  shell("sh -c 'ln -s victim t.json.$$.tmp; exec " PENSTOCK_EXEC_PROGRAM
        " run s.toml --steps 1 --timeline t.json' >out 2>err");
  EXPECT_EQ(file_text(folder_.path() / "victim"), "precious");
  EXPECT_EQ(nlohmann::json::parse(file_text(folder_.path() / "t.json"))["steps"], 1);
}

TEST_F(OutputsTest, ASecondRunLeavesTheScheduleOfTheFirst) {
  EXPECT_EQ(run("run s.toml --timeline a.json").code, 0);
  folder_.write("schedule.json", "of somebody else");
  const std::string name = "schedule-" + json("run s.toml --json")["schedule"].get<std::string>() + ".json";
  const std::string first = file_text(folder_.path() / name);
  EXPECT_EQ(run("run s.toml --set policy.name=megatrain --timeline b.json").code, 0);
  EXPECT_EQ(file_text(folder_.path() / name), first);
  EXPECT_EQ(file_text(folder_.path() / "schedule.json"), "of somebody else");
  folder_.write("d/" + name, "");
  fs::remove(folder_.path() / ("d/" + name));
  fs::create_directory(folder_.path() / ("d/" + name));  // found out before the run, too
  expect_refused("run s.toml --timeline d/t.json", "names a folder");
}

TEST_F(OutputsTest, ADumpOfAMixtureOfExpertsSaysWhatTokensChose) {
  fs::copy_file(source_folder() / "scenarios/models/tiny-qwen3-moe.json", folder_.path() / "model.json",
                fs::copy_options::overwrite_existing);
  const std::string command = "run s.toml --set policy.name=resident --steps 1 --dump d --set policy.keep=everything";
  const std::string choices = (folder_.path() / "d/expert_choices.i32").string();
  EXPECT_EQ(run(command + " --set model.layers=5 --set workload.micro_batch=4").code, 0);
  const nlohmann::json shape = nlohmann::json::parse(file_text(folder_.path() / "d/run.json"))["expert_choices_shape"];
  EXPECT_EQ(shape, (nlohmann::json{4, 128, 4}));  // one layer is dense
  const std::string bytes = file_text(choices);
  ASSERT_EQ(bytes.size(), 4u * 4 * 128 * 4);
  std::vector<std::int32_t> ids(bytes.size() / 4);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  for (std::size_t token = 0; token < ids.size(); token += 4) {
    const std::set<std::int32_t> chosen(ids.begin() + static_cast<std::ptrdiff_t>(token),
                                        ids.begin() + static_cast<std::ptrdiff_t>(token) + 4);
    ASSERT_EQ(chosen.size(), 4u) << token;
    ASSERT_GE(*chosen.begin(), 0);
    ASSERT_LT(*chosen.rbegin(), 16);
  }
  // Of several micro-batches one lies where the other lay: nothing is left of another run's.
  EXPECT_EQ(run(command + " --set model.layers=5").code, 0);
  EXPECT_FALSE(fs::exists(choices));
  EXPECT_FALSE(nlohmann::json::parse(file_text(folder_.path() / "d/run.json")).contains("expert_choices_shape"));
}

}  // namespace
}  // namespace penstock::exec
