// penstock-exec run --save: refused before training where it cannot succeed, on file systems of every kind; one run at
// a time; nothing of a run that came to nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/safetensors.h"
#include "shared/model/config_json.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class SavingTest : public ProgramTest {
 protected:
  std::set<std::string> names_in(const std::string& folder) const {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path() / folder))
      names.insert(entry.path().filename());
    return names;
  }
  std::int64_t saved_step(const std::string& folder) const { return open_checkpoint(folder_.path() / folder)->step(); }

  /// Runs shell commands that mount things, in a place of their own; `$E` is the program with a short run. What they
  /// print is in `out`, the program's errors in `err`.
  bool in_mounts(const std::string& commands) const {
    folder_.write("mounts.sh", "set -u\nE='" PENSTOCK_EXEC_PROGRAM
                               " run s.toml --steps 1 --set policy.name=megatrain'\n" +
                                   commands);
    const std::string command =
        "cd '" + folder_.path().string() + "' && unshare " + kOptions + " sh mounts.sh >out 2>err </dev/null";
    return std::system(command.c_str()) == 0;
  }
  static bool has_mounts() {
    return std::system((std::string("unshare ") + kOptions + " true 2>/dev/null").c_str()) == 0;
  }
  static inline const char* const kOptions = ::geteuid() == 0 ? "-m" : "-Urm";
  std::string out() const { return file_text(folder_.path() / "out"); }
  std::string err() const { return file_text(folder_.path() / "err"); }
};

TEST_F(SavingTest, AVolumeIsRefusedWithTheNameOfAFolderInIt) {
  if (!has_mounts()) GTEST_SKIP() << "no mount namespaces here";
  in_mounts(R"(mkdir v b; mount -t tmpfs tmpfs v
    $E --save v; echo "code $?"; ls -A v
    $E --save v/checkpoint; echo "code $?"; ls -A v
    mount --bind v/checkpoint b; $E --save b; echo "code $?")");
  EXPECT_MENTIONS(err(), "penstock-exec: v: cannot be saved to: it is mounted");
  EXPECT_MENTIONS(err(), "name a folder in it, v/checkpoint");
  EXPECT_MENTIONS(err(), "penstock-exec: b: cannot be saved to: it is mounted");
  EXPECT_EQ(out().find("code 2\n"), 0u) << out();  // nothing was trained
  EXPECT_MENTIONS(out(), "saved step 1 to v/checkpoint\ncode 0\ncheckpoint\n");
  EXPECT_EQ(names_in("v"), std::set<std::string>{});
}

TEST_F(SavingTest, ADiskThatIsTooSmallIsRefused) {
  if (!has_mounts()) GTEST_SKIP() << "no mount namespaces here";
  in_mounts(R"(mkdir v; mount -t tmpfs -o size=1m tmpfs v
    $E --save v/c; echo "code $?"; ls -A v
    mount -o remount,size=100m v; $E --save v/c; echo "code $?"; mount -o remount,size=3m v
    $E --resume v/c --save v/c; echo "code $?"; ls -A v)");
  EXPECT_EQ(out().find("code 3\n"), 0u) << out();
  EXPECT_MENTIONS(err(), "penstock-exec: v/c: a checkpoint of this run has ");
  EXPECT_MENTIONS(err(), "free; name a folder elsewhere");
  EXPECT_MENTIONS(out(), "saved step 1 to v/c\ncode 0\ncode 3\nc\n");
  EXPECT_MENTIONS(err(), "the old one stands until the new one is whole");
}

TEST_F(SavingTest, ALowerLayerOfAnOverlayIsRefused) {
  if (!has_mounts()) GTEST_SKIP() << "no mount namespaces here";
  if (!in_mounts(R"(mkdir -p v/lower v/upper v/work v/m; $E --save v/lower/c >/dev/null
    mount -t overlay overlay -o lowerdir=v/lower,upperdir=v/upper,workdir=v/work v/m || exit 1
    $E --resume v/m/c --save v/m/c; echo "code $?"; ls -A v/m
    $E --save v/m/d; echo "code $?"; $E --resume v/m/d --save v/m/d; echo "code $?"; ls -A v/m)"))
    GTEST_SKIP() << "no overlays here: " << err();
  EXPECT_EQ(out().find("code 2\nc\n"), 0u) << out();
  EXPECT_MENTIONS(err(), "v/m/c: cannot be saved to: it is in a lower layer of an overlay");
  EXPECT_MENTIONS(out(), "saved step 2 to v/m/d\ncode 0\nc\nd\n");
}

TEST_F(SavingTest, AFileSystemThatCannotExchangeFoldersWillDo) {
  if (!has_mounts() || std::system("which bindfs >/dev/null 2>&1") != 0) GTEST_SKIP() << "no bindfs here";
  if (!in_mounts(R"(mkdir b f; bindfs b f || exit 1
    $E --save f/c; $E --resume f/c --save f/c; echo "code $?"; ls -A f; umount f)"))
    GTEST_SKIP() << "no FUSE here: " << err();
  EXPECT_MENTIONS(out(), "saved step 2 to f/c\ncode 0\nc\n");
  EXPECT_EQ(saved_step("b/c"), 2);
}

TEST_F(SavingTest, AReadOnlyPlaceIsRefused) {
  if (!has_mounts()) GTEST_SKIP() << "no mount namespaces here";
  in_mounts(R"(mkdir v; mount -t tmpfs -o ro tmpfs v; $E --save v/c; echo "code $?")");
  EXPECT_EQ(out(), "code 2\n");
  EXPECT_MENTIONS(err(), "v/c: cannot be saved to: v/c.lock cannot be made: Read-only file system");
}

TEST_F(SavingTest, ALinkToAnotherFileSystemIsFollowed) {
  const fs::path memory = "/dev/shm";
  if (!fs::is_directory(memory)) GTEST_SKIP() << "no /dev/shm here";
  const fs::path there = memory / folder_.path().filename();
  fs::create_directory(there);
  fs::create_directory_symlink(there / "c", folder_.path() / "c");
  EXPECT_EQ(run("run s.toml --steps 1 --save c").code, 0);
  EXPECT_EQ(run("run s.toml --steps 1 --resume c --save c").code, 0);
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "c"));
  EXPECT_EQ(open_checkpoint(there / "c")->step(), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(there), fs::directory_iterator()), 1);
  fs::remove_all(there);
}

TEST_F(SavingTest, ASecondRunIsRefusedBeforeItTrains) {
  const std::vector<std::string> endless = {
      PENSTOCK_EXEC_PROGRAM, "run",    "s.toml", "--set", "policy.name=megatrain", "--set",
      "run.steps=100000000", "--save", "c"};
  ChildProcess first(folder_.path(), endless);
  first.out_until("\nstep     1");
  expect_error("run s.toml --save ./c/", 2, "c: cannot be saved to: another run saves there (process ");
  first.send(SIGTERM);
  EXPECT_EQ(first.finish(), 0) << first.err();
  EXPECT_EQ(names_in("").count("c.lock"), 0u);
  // One that was killed holds nothing.
  ChildProcess killed(folder_.path(), endless);
  killed.out_until("\nstep     1");
  killed.send(SIGKILL);
  killed.finish();
  EXPECT_EQ(run("run s.toml --steps 1 --set policy.name=megatrain --resume c --save c").code, 0);
  EXPECT_EQ(names_in("").count("c.lock"), 0u);
}

TEST_F(SavingTest, PairsOfRunsAlwaysLeaveACheckpoint) {
  for (int pair = 0; pair < 4; ++pair) {
    const std::vector<std::string> one = {
        PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--set", "policy.name=megatrain", "--steps", "2", "--save", "c"};
    ChildProcess first(folder_.path(), one), second(folder_.path(), one);
    const std::set<int> codes{first.finish(), second.finish()};
    EXPECT_TRUE(codes == std::set<int>{0} || codes == (std::set<int>{0, 2})) << first.err() << second.err();
    EXPECT_EQ(saved_step("c"), 2);
    EXPECT_EQ(names_in("").count("c.new") + names_in("").count("c.partial") + names_in("").count("c.lock"), 0u);
  }
}

/// A run whose every norm overflows: all values are finite in bf16, nothing that is made of them is.
class NothingUpdatedTest : public SavingTest {
 protected:
  NothingUpdatedTest() {
    const Model model = make_model(read_model_config(folder_.path() / "model.json"));
    std::vector<TensorEntry> entries;
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors)
        entries.push_back({tensor.name, StoredType::bf16, stored_shape(tensor)});
    SafetensorsWriter writer(folder_.path() / "huge.safetensors", entries);
    for (const Layer& layer : model.layers)
      for (const ParameterTensor& tensor : layer.tensors) {
        // What begins as 1 is multiplied by 1.7e38 twice before the first norm is taken.
        const bool is_first = tensor.name.find("embed") != std::string::npos;
        const std::vector<std::uint16_t> values(static_cast<std::size_t>(tensor.elements()),
                                                is_first ? 0x3F80 : 0x7F00);
        writer.append(std::as_bytes(std::span(values)));
      }
    writer.close();
  }
};

TEST_F(NothingUpdatedTest, ItFailsAndSavesNothing) {
  EXPECT_EQ(run("run s.toml --steps 1 --save c").code, 0);
  const Outcome outcome = run("run s.toml --set init.weights=huge.safetensors --save c");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_MENTIONS(outcome.out, "NOT UPDATED");
  EXPECT_MENTIONS(outcome.out, "4 of 4 steps updated nothing, for their gradient norm was not finite; the first was");
  EXPECT_EQ(outcome.out.find("saved"), std::string::npos);
  EXPECT_MENTIONS(outcome.err,
                  "penstock-exec: none of the 4 steps updated anything: the gradient norm was not finite "
                  "since step 1; nothing is saved, c is what it was before");
  EXPECT_EQ(saved_step("c"), 1);
  EXPECT_EQ(run("run s.toml --set init.weights=huge.safetensors").code, 1);  // whether or not it saves
  EXPECT_FALSE(fs::exists(folder_.path() / "new"));
}

TEST_F(NothingUpdatedTest, TheResultIsThereToBeRead) {
  const Outcome outcome = run("run s.toml --set init.weights=huge.safetensors --steps 3 --json");
  EXPECT_EQ(outcome.code, 1);
  const nlohmann::json result = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(result["updates"]["applied"], 0);
  EXPECT_EQ(result["updates"]["skipped"], 3);
  EXPECT_EQ(result["updates"]["first_skipped"], 1);
  EXPECT_EQ(json("run s.toml --steps 3 --json")["updates"]["applied"], 3);
}

TEST_F(NothingUpdatedTest, WithoutClippingTheStatesAreLost) {
  EXPECT_EQ(run("run s.toml --steps 1 --save c --set policy.clip=false").code, 0);
  const Outcome outcome = run("run s.toml --set init.weights=huge.safetensors --save c --set policy.clip=false");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_MENTIONS(outcome.err, "the loss is not finite since step 1, and nothing stopped its updates");
  EXPECT_EQ(saved_step("c"), 1);
}

TEST_F(SavingTest, ARunThatLosesItsStatesLaterSavesNothing) {
  EXPECT_EQ(run("run s.toml --steps 1 --save c --set policy.clip=false").code, 0);
  // AdamW moves each weight by about the learning rate whatever the gradient.
  const Outcome outcome = run(
      "run s.toml --steps 40 --resume c --save c --set policy.clip=false --set optimizer.learning_rate=100 --set "
      "optimizer.epsilon=1e-30 --set optimizer.weight_decay=100 --allow-changed learning_rate --allow-changed epsilon "
      "--allow-changed weight_decay");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_EQ(saved_step("c"), 1);
}

}  // namespace
}  // namespace penstock::exec
