// What is planned for a drive: refused where it cannot run, with keys that give what can, or with what is missing.
#include <regex>

#include "exec/program/setup.h"
#include "shared/error.h"
#include "tests/exec/program/program_fixture.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

class DriveTest : public ProgramTest {
 protected:
  DriveTest() {
    std::ofstream(folder_.path() / "machine.toml", std::ios::app)
        << "\n[nvme]\ncapacity = \"1 GiB\"\nread = \"1 GB/s\"\nwrite = \"1 GB/s\"\nlatency = \"80 us\"\n";
  }
  Scenario scenario(const std::vector<std::string>& overrides) const {
    return read_scenario(folder_.path() / "s.toml", overrides);
  }
  static std::string refusal(const Scenario& scenario, bool memory_stands_in) {
    const Schedule schedule = make_schedule(scenario.policy_input());
    return error_text([&] { require_no_drive(schedule, scenario, memory_stands_in, {}); });
  }
};

TEST_F(DriveTest, IsRefusedWithTheKeysThatDoWithout) {
  const std::string text = refusal(scenario({"policy.name=zero-infinity"}), false);
  EXPECT_TRUE(std::regex_search(
      text, std::regex("policy zero-infinity is simulated only: it keeps moments [0-9.]+ MiB, .* on NVMe, and "
                       "penstock-exec does no I/O on a drive yet .*; in DRAM instead \\(policy.nvme_states = 0, "
                       "policy.nvme_weights = 0, policy.gradients = \"dram\"\\) it fits$")))
      << text;
  EXPECT_EQ(refusal(scenario({"policy.name=zero-infinity", "policy.nvme_states=0", "policy.nvme_weights=0",
                              "policy.gradients=dram"}),
                    false),
            "");
  EXPECT_EQ(refusal(scenario({"policy.name=zero-infinity"}), true), "");  // memory stands in
}

TEST_F(DriveTest, OnlyTheKeysThatCountAreNamed) {
  const std::string text = refusal(scenario({"policy.name=megatrain", "policy.nvme_weights=1"}), false);
  EXPECT_NE(text.find("in DRAM instead (policy.nvme_weights = 0) it fits"), std::string::npos) << text;
}

TEST_F(DriveTest, WhereNothingFitsWithoutThatIsSaid) {
  const std::string text = refusal(scenario({"policy.name=zero-infinity", "machine.dram=\"1 MiB\""}), false);
  EXPECT_NE(text.find("dram needs "), std::string::npos) << text;
  EXPECT_NE(text.find("too little"), std::string::npos) << text;
}

TEST_F(DriveTest, APlanThatNeedsItPointsToAFitWithoutIt) {
  // `fit` finds room on the drive; so it must not be what the refusal leads back to.
  expect_error("run s.toml --set machine.dram=\"1 MiB\" --set machine.hbm=\"1 MiB\"", 3,
               "the NVMe is left out, for penstock-exec does no I/O on a drive yet: `penstock-sim fit --set "
               "machine.nvme=\"0 B\"` says what takes it");
  fs::remove(folder_.path() / "machine.toml");
  fs::copy_file(source_folder() / "scenarios/hardware/this-cpu.toml", folder_.path() / "machine.toml");
  expect_error("run s.toml --set machine.dram=\"1 MiB\" --set machine.hbm=\"1 MiB\"", 3,
               "; `penstock-sim fit` says what takes it");
}

}  // namespace
}  // namespace penstock::exec
