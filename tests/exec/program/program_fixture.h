// A folder with a scenario in it, where penstock-exec runs as people and scripts run it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock::exec {

namespace fs = std::filesystem;

inline constexpr const char* kScenario = R"([model]
config = "model.json"
[machine]
hardware = "machine.toml"
[workload]
sequence_length = 32
sequences = 4
micro_batch = 2
[policy]
name = "penstock"
[run]
backend = "host"
steps = 4
warmup_steps = 1
[data]
file = "random"
)";

inline std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

/// A folder with a scenario in it, where commands run.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    folder_.write("s.toml", kScenario);
    const fs::path catalogue = source_folder() / "scenarios";
    fs::copy_file(catalogue / "models/tiny-qwen3.json", folder_.path() / "model.json");
    fs::copy_file(catalogue / "hardware/this-cpu.toml", folder_.path() / "machine.toml");
  }
  Outcome run(const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.path().string() + "' && " + PENSTOCK_EXEC_PROGRAM " " + arguments + " >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(folder_.path() / "out"),
            file_text(folder_.path() / "err")};
  }
  nlohmann::json json(const std::string& arguments) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }
  /// Exit code and a part of the one line on standard error; nothing was written to standard output.
  void expect_error(const std::string& arguments, int code, const std::string& part) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }

  TemporaryFolder folder_;
};

}  // namespace penstock::exec
