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
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
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

/// Where the letters, digits and underscores end that begin at `at`; behind `at` if there are none.
std::size_t word_end(const std::string& text, std::size_t at) {
  const auto in_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), in_word);
  return std::max(static_cast<std::size_t>(end - text.begin()), at + 1);
}

/// Numbers the schedule hashes (16 hex digits) of one golden file.
class HashNames {
 public:
  std::string named(const std::string& text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = word_end(text, at);
      const std::string word = text.substr(at, end - at);
      if (word.size() == 16 && word.find_first_not_of("0123456789abcdef") == std::string::npos) {
        const auto known = numbers_.try_emplace(word, numbers_.size() + 1).first;
        result += "<hash " + std::to_string(known->second) + ">";
      } else {
        result += word;
      }
      at = end;
    }
    return result;
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
