// What `cmake --install` leaves: programs that work from any folder, wherever they were moved to.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/shared/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Installed : public testing::Test {
 protected:
  Installed() { fs::create_directories(elsewhere()); }

  fs::path elsewhere() const { return folder_.path() / "elsewhere"; }
  fs::path prefix() const { return folder_.path() / "prefix"; }

  /// Exit code; what the command prints is in `printed_`. Runs in a folder that has nothing to do with Penstock.
  int run(const std::string& command) {
    const std::string whole = fmt::format("cd '{}' && {{ {}; }} >'{}' 2>&1 </dev/null", elsewhere().string(), command,
                                          (folder_.path() / "printed").string());
    const int status = std::system(whole.c_str());
    printed_ = file_text(folder_.path() / "printed");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void install(const std::string& environment = "") {
    ASSERT_EQ(run(fmt::format("{} '{}' --install '{}' --prefix '{}'", environment, PENSTOCK_CMAKE, PENSTOCK_BUILD_DIR,
                              prefix().string())),
              0)
        << printed_;
  }
  /// What `name` of the installed programs does, wherever `prefix_now` is.
  int program(const fs::path& prefix_now, const std::string& name, const std::string& arguments) {
    return run(fmt::format("'{}' {}", (prefix_now / PENSTOCK_BINDIR / name).string(), arguments));
  }
  bool printed(const std::string& part) const { return printed_.find(part) != std::string::npos; }

  /// Every way to name something of the catalogue.
  void expect_whole(const fs::path& prefix_now) {
    const std::string catalogue = (prefix_now / PENSTOCK_DATADIR / "penstock/scenarios").string();
    EXPECT_EQ(program(prefix_now, "penstock-sim", "list"), 0) << printed_;
    EXPECT_TRUE(printed("catalogue " + catalogue + "\n")) << printed_;
    EXPECT_TRUE(printed("\n  qwen2.5-7b-h200 ")) << printed_;
    for (const char* name : {"quickstart", "quickstart.toml", "scenarios/quickstart.toml"}) {
      EXPECT_EQ(program(prefix_now, "penstock-sim", fmt::format("fit {}", name)), 0) << printed_;
      EXPECT_TRUE(printed("It fits.")) << printed_;
    }
    EXPECT_EQ(program(prefix_now, "penstock-sim", "fit quickstrt"), 2);
    EXPECT_TRUE(printed("did you mean quickstart of the catalogue?")) << printed_;
    EXPECT_EQ(program(prefix_now, "penstock-sim", "shop --model quickstart --budget 100000 --sequences 8 --threads 1"),
              0)
        << printed_;
    EXPECT_TRUE(printed(catalogue + "/prices/machines.toml")) << printed_;
  }

  TemporaryFolder folder_;
  std::string printed_;
};

TEST_F(Installed, ProgramsFindTheirCatalogueFromAnyFolderAndAfterAMove) {
  install();
  for (const fs::path& file : {fs::path(PENSTOCK_DOCDIR) / "LICENSE", fs::path(PENSTOCK_DATADIR) / "penstock/README.md",
                               fs::path(PENSTOCK_DATADIR) / "penstock/docs/scenario.md",
                               fs::path(PENSTOCK_DATADIR) / "penstock/scenarios/software/deepspeed.toml"})
    EXPECT_TRUE(fs::is_regular_file(prefix() / file)) << file;
  expect_whole(prefix());
  fs::rename(prefix(), folder_.path() / "moved here");
  expect_whole(folder_.path() / "moved here");
}

TEST_F(Installed, AFileOfTheUsersOwnGoesBeforeTheCatalogues) {
  install();
  // A scenario of one's own may name models and machines of the catalogue.
  std::ofstream(elsewhere() / "quickstart.toml")
      << "[model]\nconfig = \"qwen2.5-7b\"\n[machine]\nhardware = \"hardware/gh200.toml\"\n"
         "[workload]\nsequence_length = 64\nsequences = 2\nmicro_batch = 1\n[policy]\nname = \"megatrain\"\n";
  EXPECT_EQ(program(prefix(), "penstock-sim", "fit quickstart.toml"), 0) << printed_;
  EXPECT_TRUE(printed("quickstart: qwen2.5-7b, policy megatrain, on ")) << printed_;
  // A folder that is called scenarios is no catalogue.
  fs::create_directories(elsewhere() / "scenarios");
  EXPECT_EQ(program(prefix(), "penstock-sim", "list hardware"), 0) << printed_;
  EXPECT_TRUE(printed("gh200")) << printed_;
  // One that has models and hardware is.
  for (const char* kind : {"models", "hardware"}) fs::create_directories(elsewhere() / "scenarios" / kind);
  EXPECT_EQ(program(prefix(), "penstock-sim", "list hardware"), 0) << printed_;
  EXPECT_EQ(printed_, "catalogue scenarios\n\nhardware\n");
}

TEST_F(Installed, DestdirIsPutBefore) {
  install(fmt::format("DESTDIR='{}'", (folder_.path() / "staging").string()));
  EXPECT_FALSE(fs::exists(prefix()));
  fs::path staged = folder_.path() / "staging";
  staged += prefix();
  expect_whole(staged);
}

TEST_F(Installed, ManPagesSayWhatHelpSays) {
  install();
  const std::string page = file_text(prefix() / PENSTOCK_MANDIR / "man1/penstock-sim.1");
  EXPECT_EQ(page.find(".TH PENSTOCK-SIM 1"), 0u) << page.substr(0, 100);
  EXPECT_NE(page.find("\npenstock-sim \\- Predict how fast a language model trains on a machine"), std::string::npos);
  // Each command that the program has, with each line of its help.
  EXPECT_EQ(program(prefix(), "penstock-sim", "simulate --help"), 0);
  EXPECT_NE(page.find("\n.SS simulate\n.nf\n"), std::string::npos);
  EXPECT_NE(page.find("\\-\\-ignore\\-capacity"), std::string::npos);
  for (const char* command : {"fit", "plan", "search", "sweep", "shop", "check", "compare", "validate", "list"})
    EXPECT_NE(page.find(fmt::format("\n.SS {}\n", command)), std::string::npos) << command;
}

TEST_F(Installed, BashCompletesCommandsAndTheirOptions) {
  install();
  const std::string completion = (prefix() / PENSTOCK_DATADIR / "bash-completion/completions/penstock-sim").string();
  const auto complete = [&](const std::string& words, int at) {
    EXPECT_EQ(run(fmt::format(
                  "bash -c 'source {}; COMP_WORDS=({}); COMP_CWORD={}; _penstock_sim; echo \"${{COMPREPLY[@]}}\"'",
                  completion, words, at)),
              0)
        << printed_;
    return printed_;
  };
  EXPECT_EQ(complete("penstock-sim s", 1), "simulate search sweep shop\n");
  EXPECT_EQ(complete("penstock-sim plan --ign", 2), "--ignore-capacity\n");
  EXPECT_EQ(complete("penstock-sim plan scenario", 2), "\n");  // a file, which bash completes itself
}

/// find_package(Penstock), and a program that predicts what penstock-sim predicts.
TEST_F(Installed, TheSimulatorIsALibrary) {
  install();
  const auto write = [&](const char* name, const char* text) { std::ofstream(elsewhere() / name) << text; };
  write("CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES CXX)\nfind_package(Penstock REQUIRED)\n"
        "message(STATUS \"catalogue ${Penstock_CATALOGUE}\")\n"
        "add_executable(consumer main.cpp)\ntarget_link_libraries(consumer PRIVATE Penstock::sim)\n");
  write("main.cpp", R"(#include <cstdio>
#include "shared/catalogue.h"
#include "shared/scenario/scenario.h"
#include "sim/front_desk.h"
#include "sim/simulate.h"
int main(int, char** arguments) {
  penstock::Scenario scenario = penstock::read_scenario(arguments[1], {"policy.name=megatrain"});
  const penstock::Schedule schedule = penstock::sim::proved_schedule(scenario, {});
  std::printf("%s %.6g\n", schedule.policy.c_str(), penstock::sim::simulate(schedule, scenario.machine).step_seconds);
}
)");
  EXPECT_EQ(run(fmt::format("'{}' -S . -B build -G Ninja -DCMAKE_PREFIX_PATH='{}' && '{}' --build build",
                            PENSTOCK_CMAKE, prefix().string(), PENSTOCK_CMAKE)),
            0)
      << printed_;
  const std::string catalogue = (prefix() / PENSTOCK_DATADIR / "penstock/scenarios").string();
  EXPECT_TRUE(printed("catalogue " + catalogue + "\n")) << printed_;
  const std::string scenario = (prefix() / PENSTOCK_DATADIR / "penstock/scenarios/qwen2.5-7b-h200.toml").string();
  EXPECT_EQ(run(fmt::format("PENSTOCK_CATALOGUE='{}' build/consumer '{}'", catalogue, scenario)), 0) << printed_;
  EXPECT_EQ(printed_.find("megatrain "), 0u) << printed_;
}

#if PENSTOCK_HAS_EXEC
TEST_F(Installed, TheExecutorTrainsWhatTheCatalogueHas) {
  install();
  EXPECT_EQ(program(prefix(), "penstock-exec",
                    "run quickstart --steps 1 --set policy.name=megatrain --set machine.hbm=64MiB"),
            0)
      << printed_;
  EXPECT_TRUE(printed("step     1  loss 5.")) << printed_;  // log(256) = 5.55 before anything is learnt
  EXPECT_TRUE(printed("data: README.md and docs of ")) << printed_;
  EXPECT_NE(file_text(prefix() / PENSTOCK_MANDIR / "man1/penstock-exec.1").find("\n.SS calibrate\n"),
            std::string::npos);
}
#endif

}  // namespace
}  // namespace penstock
