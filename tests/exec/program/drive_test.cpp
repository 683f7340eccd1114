// Runs that keep something on NVMe: the same losses as in DRAM, folders in which that cannot be are refused, and a run
// that is killed leaves nothing that is trained on.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <random>

#include "exec/store/store_files.h"
#include "shared/error.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/exec/store/small_store.h"
#include "tests/shared/child_process.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class DriveTest : public ProgramTest {
 protected:
  DriveTest() {
    std::ofstream(folder_.path() / "machine.toml", std::ios::app)
        << "\n[nvme]\ncapacity = \"1 GiB\"\nread = \"1 GB/s\"\nwrite = \"1 GB/s\"\nlatency = \"80 us\"\n";
    for (const char* name : {"a", "b"}) fs::create_directory(folder_.path() / name);
  }
  fs::path store(const char* folder = "a") const { return folder_.path() / folder / kStoreName; }
  std::vector<double> losses(const std::string& arguments) const {
    std::vector<double> found;
    const nlohmann::json result = json("run s.toml --json " + arguments);
    for (const nlohmann::json& step : result["steps"]) found.push_back(step["loss"].get<double>());
    return found;
  }
};

const std::string kOnDrive = "--set policy.nvme_states=all --set policy.nvme_weights=1 --set machine.nvme_path=a ";

#define SKIP_WITHOUT_DIRECT_IO()             \
  if (!does_direct_io(folder_.path() / "a")) \
  GTEST_SKIP() << "the file system of " << folder_.path() << " does no direct I/O, or lies in memory"

TEST_F(DriveTest, WithoutAFolderItIsRefusedWithTheKeysThatDoWithout) {
  const Outcome outcome = run("run s.toml --set policy.name=zero-infinity");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("policy zero-infinity keeps moments "), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with(
      " on NVMe: name a folder on the drive, as machine.nvme_path = \"/mnt/drive\"; in DRAM instead "
      "(policy.nvme_states = 0, policy.nvme_weights = 0, policy.gradients = \"dram\") it fits\n"))
      << outcome.err;
  EXPECT_EQ(run("run s.toml --steps 1 --set policy.name=zero-infinity --set policy.nvme_states=0 --set "
                "policy.nvme_weights=0 --set policy.gradients=dram")
                .code,
            0);
}

TEST_F(DriveTest, OnlyTheKeysThatCountAreNamed) {
  expect_error("run s.toml --set policy.name=megatrain --set policy.nvme_weights=1", 2,
               "in DRAM instead (policy.nvme_weights = 0) it fits");
}

TEST_F(DriveTest, APlanThatNeedsItPointsToAFitWithoutIt) {
  // `fit` finds room on the drive; so it must not be what the refusal leads back to.
  expect_error("run s.toml --set machine.dram=\"1 MiB\" --set machine.hbm=\"1 MiB\"", 3,
               "the NVMe is left out, for machine.nvme_path names no folder on it: `penstock-sim fit --set "
               "machine.nvme=\"0 B\"` says what takes it");
  fs::remove(folder_.path() / "machine.toml");
  fs::copy_file(source_folder() / "scenarios/hardware/this-cpu.toml", folder_.path() / "machine.toml");
  expect_error("run s.toml --set machine.dram=\"1 MiB\" --set machine.hbm=\"1 MiB\"", 3,
               "; `penstock-sim fit` says what takes it");
}

TEST_F(DriveTest, AMachineWithoutADriveIsCalledSo) {
  fs::remove(folder_.path() / "machine.toml");
  fs::copy_file(source_folder() / "scenarios/hardware/this-cpu.toml", folder_.path() / "machine.toml");
  expect_error("run s.toml --set policy.nvme_states=all --set machine.nvme_path=a", 3,
               "machine.toml has no drive, so that none is planned with: `penstock-exec calibrate ");
}

TEST_F(DriveTest, TheLossesAreThoseOfDramAndNothingIsLeft) {
  SKIP_WITHOUT_DIRECT_IO();
  const std::vector<double> reference = losses("");
  ASSERT_EQ(reference.size(), 4u);
  EXPECT_EQ(losses(kOnDrive), reference);
  EXPECT_EQ(losses("--set policy.nvme_states=1 --set policy.gradients=nvme --set machine.nvme_path=b"), reference);
  EXPECT_EQ(losses("--set policy.nvme_states=all --set 'machine.nvme_path=[\"a\", \"b\"]'"), reference);
  EXPECT_EQ(losses("--set policy.group=1 --set policy.activations=nvme --set policy.gradient_sums=nvme "
                   "--set policy.keep=input_attention --set machine.nvme_path=a"),
            reference);
  for (const char* folder : {"a", "b"}) EXPECT_TRUE(fs::is_empty(folder_.path() / folder)) << folder;
  const Outcome outcome = run("run s.toml --steps 1 " + kOnDrive);
  EXPECT_MENTIONS(outcome.out, "\nstore a: 1 file, ");
  EXPECT_MENTIONS(outcome.out, "\nNVMe: keeps ");
}

// The states that would be on the drive are a frozen layer's, which has none: nothing is there, and no folder is needed.
TEST_F(DriveTest, WhatIsFrozenNeedsNone) {
  const std::string frozen = "--set policy.name=megatrain --set optimizer.freeze=layers.2 ";
  EXPECT_EQ(losses(frozen + "--set policy.nvme_states=1"), losses(frozen));
}

TEST_F(DriveTest, FoldersInWhichNothingCanBeKeptAreRefused) {
  const auto with = [](const std::string& path) {
    return "run s.toml --set policy.nvme_states=all --set machine.nvme_path=" + path;
  };
  expect_error(with("none"), 2, "none: No such file or directory; name a folder on the drive");
  expect_error(with("s.toml"), 2, "s.toml: is not a folder");
  expect_error(with("/dev/null"), 2, "/dev/null: is not a folder");
  if (fs::is_directory("/dev/shm")) expect_error(with("/dev/shm"), 2, "/dev/shm: lies in memory (tmpfs)");
  expect_error(with(""), 2, "nvme_path: expected a path, found an empty text");
  expect_error(with("'[\"a\", \"\"]'"), 2, "nvme_path: expected a path, found an empty text");
  expect_error(with("7"), 2, "nvme_path: expected a text in quotes or a list of them, found 7");
  SKIP_WITHOUT_DIRECT_IO();
  expect_error(with("'[\"a\", \"a\"]'"), 2, "is named twice");
  EXPECT_TRUE(fs::is_empty(folder_.path() / "a"));
}

TEST_F(DriveTest, NoOutputGoesWhereTheStoreIs) {
  const std::string refused = "a/penstock.store, which it needs, ";
  expect_error("run s.toml " + kOnDrive + "--timeline a/penstock.store", 2,
               refused + "would be written twice, also as");
  expect_error("run s.toml " + kOnDrive + "--save a", 2, refused + "lies in a (--save), which is written as a whole");
  expect_error("run s.toml --set machine.nvme_path=b --set checkpoint.every=2 --save ./b", 2,
               "which is written as a whole");
  EXPECT_TRUE(fs::is_empty(folder_.path() / "a"));
}

TEST_F(DriveTest, AFolderInUseIsRefusedAndSoIsTheStoreOfAnotherSchedule) {
  SKIP_WITHOUT_DIRECT_IO();
  folder_.write("a/penstock.store",
                "penstock-store/1\nfile 0 of 1\nschedule 0123\nprocess 4711 on desktop\nfrom step 3 of ck\n");
  expect_error("run s.toml " + kOnDrive, 2, "is of another schedule (0123, this one is ");
  EXPECT_TRUE(fs::exists(store()));
  const int file = ::open(store().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  expect_error("run s.toml " + kOnDrive, 2, "in use by another run (process 4711 on desktop)");
  ::close(file);
  folder_.write("a/penstock.store", "my diary");
  expect_error("run s.toml " + kOnDrive, 2, "is not a store of penstock-exec; move it away");
  EXPECT_EQ(file_text(store()), "my diary");
}

TEST_F(DriveTest, KilledAtAnyMomentNoCheckpointedStepIsLostAndTornStatesAreNeverTrainedOn) {
  SKIP_WITHOUT_DIRECT_IO();
  constexpr int kSteps = 3, kEnough = 15;
  const std::vector<double> reference = losses("--steps " + std::to_string(kEnough + kSteps));
  const auto saved = [&] {
    const fs::path file = folder_.path() / "ck/run.json";
    return fs::exists(file) ? nlohmann::json::parse(file_text(file))["step"].get<int>() : 0;
  };
  std::mt19937 random(5);
  int left_behind = 0;
  for (int attempt = 0; saved() < kEnough; ++attempt) {
    ASSERT_LT(attempt, 100);
    const int before = saved();
    if (attempt % 4 != 3) {
      // Killed once it has begun, after one of its steps, or after the last one, while it saves or later.
      std::vector<std::string> arguments{PENSTOCK_EXEC_PROGRAM,
                                         "run",
                                         "s.toml",
                                         "--steps",
                                         std::to_string(kSteps),
                                         "--save",
                                         "ck",
                                         "--set",
                                         "policy.nvme_states=all",
                                         "--set",
                                         "policy.nvme_weights=1",
                                         "--set",
                                         "machine.nvme_path=a"};
      if (before > 0) arguments.insert(arguments.end(), {"--resume", "ck"});
      ChildProcess killed(folder_.path(), arguments);
      const auto steps = static_cast<int>(random() % (kSteps + 1));
      killed.out_until(steps == 0 ? std::string("\nstore ") : fmt::format("\nstep {:>5} ", before + steps));
      killed.send(SIGKILL);
      killed.finish();
      EXPECT_GE(saved(), before);
      continue;
    }
    const Outcome outcome = run(
        fmt::format("run s.toml --json --steps {} --save ck {}{}", kSteps, kOnDrive, before > 0 ? "--resume ck" : ""));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.err.find("are of no checkpoint. They are not used") != std::string::npos) ++left_behind;
    int step = before;
    const nlohmann::json result = nlohmann::json::parse(outcome.out);
    for (const nlohmann::json& each : result["steps"]) {
      ASSERT_EQ(each["step"].get<int>(), ++step);
      EXPECT_EQ(each["loss"].get<double>(), reference[static_cast<std::size_t>(step - 1)]) << step;
    }
    EXPECT_EQ(saved(), before + kSteps);
  }
  EXPECT_GT(left_behind, 0);
  EXPECT_TRUE(fs::is_empty(folder_.path() / "a"));
}

}  // namespace
}  // namespace penstock::exec
