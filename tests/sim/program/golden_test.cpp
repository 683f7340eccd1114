// Golden outputs: a command and what it must say, to the letter, so that a change of a prediction is a diff.
//
// golden/*.txt, line by line:
//   # ...      a remark
//   $ command  runs in a folder of its own, shared by the commands of one file, that starts as a copy of golden/data;
//              the built penstock-sim is on PATH
//   > line     expected on standard output
//   2> line    expected on standard error
//   exit N     expected exit code; 0 if left out
// Schedule hashes stand as <hash 1>, <hash 2>, ... in the order in which a file meets them: which are equal matters,
// not what they are.
// PENSTOCK_UPDATE_GOLDEN=1 writes what the commands say now into the files: read the diff before you commit it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/shared/temporary_folder.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = source_folder() / "tests/sim/program/golden";

/// A command with the remarks before it, and its outputs as they stand in the file.
struct Step {
  std::string before;
  std::string command;
  std::string outputs;
};

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Step> read_steps(const std::string& text) {
  std::vector<Step> steps;
  std::string before, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    if (line.starts_with("$ ")) {
      steps.push_back({before, line.substr(2), ""});
      before.clear();
    } else if (line.empty() || line.starts_with("#")) {
      before += line + "\n";
    } else if (!steps.empty()) {
      steps.back().outputs += line + "\n";
    }
  }
  return steps;
}

std::string prefixed(const std::string& text, const std::string& prefix) {
  std::string result, line;
  for (std::istringstream lines(text); std::getline(lines, line);)
    result += (line.empty() ? prefix : prefix + " " + line) + "\n";
  return result;
}

/// Numbers the schedule hashes (16 hex digits) of one golden file.
class HashNames {
 public:
  std::string named(const std::string& text) {
    static const std::regex hash("\\b[0-9a-f]{16}\\b");
    std::string result;
    auto rest = text.begin();
    for (std::sregex_iterator match(text.begin(), text.end(), hash), end; match != end; ++match) {
      const auto known = numbers_.try_emplace(match->str(), numbers_.size() + 1).first;
      result.append(rest, (*match)[0].first).append("<hash " + std::to_string(known->second) + ">");
      rest = (*match)[0].second;
    }
    return result.append(rest, text.end());
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

/// What the command said, as it would stand in the file.
std::string outputs_of(const std::string& command, const fs::path& folder, const fs::path& captured) {
  const std::string shell = "cd '" + folder.string() + "' && PATH='" PENSTOCK_PROGRAM_FOLDER "':\"$PATH\" && { " +
                            command + "\n} >'" + (captured / "out").string() + "' 2>'" + (captured / "err").string() +
                            "' </dev/null";
  const int status = std::system(shell.c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return prefixed(file_text(captured / "out"), ">") + prefixed(file_text(captured / "err"), "2>") +
         (code == 0 ? "" : "exit " + std::to_string(code) + "\n");
}

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kGolden))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, SaysWhatItSaid) {
  const fs::path golden = kGolden / (GetParam() + ".txt");
  const std::vector<Step> steps = read_steps(file_text(golden));
  ASSERT_FALSE(steps.empty()) << golden;
  const TemporaryFolder folder, captured;
  fs::copy(kGolden / "data", folder.path(), fs::copy_options::recursive);
  const bool update = std::getenv("PENSTOCK_UPDATE_GOLDEN") != nullptr;
  std::string updated;
  HashNames hashes;
  for (const Step& step : steps) {
    const std::string outputs = hashes.named(outputs_of(step.command, folder.path(), captured.path()));
    if (!update) {
      EXPECT_EQ(step.outputs, outputs) << golden.string() << ": $ " << step.command;
    }
    updated += step.before + "$ " + step.command + "\n" + outputs;
  }
  if (update) std::ofstream(golden, std::ios::binary) << updated;
}

INSTANTIATE_TEST_SUITE_P(PenstockSim, Golden, testing::ValuesIn(golden_files()),
                         [](const auto& golden) { return golden.param; });

}  // namespace
}  // namespace penstock
