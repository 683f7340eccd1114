// The file of metrics: a line per step, none twice, and nobody else's file.
#include "exec/program/metrics_log.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

std::string line(int step) { return "{\"step\":" + std::to_string(step) + ",\"loss\":1.5}\n"; }

class MetricsTest : public ProgramTest {
 protected:
  std::int64_t kept(const std::string& text, std::int64_t steps_before) const {
    return kept_metrics_bytes(folder_.write("m", text), steps_before);
  }
  std::string refusal(const std::string& text) const {
    return error_text([&] { kept(text, 100); });
  }
};

TEST_F(MetricsTest, LinesOfLaterStepsAndACutOffOneAreNotKept) {
  const auto length = static_cast<std::int64_t>(line(1).size());
  const std::string text = line(1) + line(2) + line(3);
  EXPECT_EQ(kept(text, 0), 0);
  EXPECT_EQ(kept(text, 2), 2 * length);
  EXPECT_EQ(kept(text, 3), 3 * length);
  EXPECT_EQ(kept(text, 9), 3 * length);
  for (std::int64_t cut = 0; cut < length; ++cut)
    EXPECT_EQ(kept(text.substr(0, text.size() - static_cast<std::size_t>(length - cut)), 9), 2 * length) << cut;
  EXPECT_EQ(kept("", 9), 0);
  EXPECT_EQ(kept_metrics_bytes(folder_.path() / "none", 9), 0);
}

TEST_F(MetricsTest, AnythingElseIsRefused) {
  EXPECT_MENTIONS(refusal("hello"), "m:1: [log] metrics: is no line of metrics");
  EXPECT_MENTIONS(refusal(line(1) + "hello\n"), "m:2: ");
  EXPECT_MENTIONS(refusal(line(1) + "\n"), "m:2: ");
  EXPECT_MENTIONS(refusal(line(2) + line(2)), "m:2: ");
  EXPECT_MENTIONS(refusal("{\"step\":1.5}\n"), "m:1: ");
  EXPECT_MENTIONS(refusal("{\"step\":1" + std::string(100'000, ' ') + "}\n"), "m:1: ");
  EXPECT_MENTIONS(refusal(std::string(100'000, '\0')), "m:1: ");
}

TEST_F(MetricsTest, ALineHasWhatTheStepReports) {
  const nlohmann::json result = json("run s.toml --steps 3 --set log.metrics=m --json");
  std::ifstream file(folder_.path() / "m");
  std::string text;
  for (const nlohmann::json& step : result["steps"]) {
    ASSERT_TRUE(std::getline(file, text));
    const nlohmann::json parsed = nlohmann::json::parse(text);
    for (const auto& [key, value] : step.items()) EXPECT_EQ(parsed[key], value) << key;
    EXPECT_GT(parsed["seconds"], 0);
    EXPECT_NEAR(parsed["tokens_per_second"].get<double>() * parsed["seconds"].get<double>(), 128, 1e-6);
  }
  EXPECT_FALSE(std::getline(file, text));
  folder_.write("m", "mine\n");
  expect_error("run s.toml --steps 3 --set log.metrics=m", 2, "m:1: [log] metrics");
  EXPECT_EQ(file_text(folder_.path() / "m"), "mine\n");
}

TEST_F(MetricsTest, AFileThatTakesNoMoreEndsNoTraining) {
  ChildProcess run(folder_.path(), {PENSTOCK_EXEC_PROGRAM, "run", "s.toml", "--steps", "4", "--set", "log.metrics=m"},
                   [] {
                     ::signal(SIGXFSZ, SIG_IGN);
                     const rlimit limit{300, 300};  // more than a line, less than four
                     ::setrlimit(RLIMIT_FSIZE, &limit);
                   });
  EXPECT_EQ(run.finish(), 1);
  EXPECT_MENTIONS(run.out(), "\nstep     4");
  EXPECT_MENTIONS(run.err(), "cannot be written: File too large; training goes on");
  EXPECT_MENTIONS(run.err(), "the last lines of metrics could not be written");
  // The next one takes up the part of a line.
  EXPECT_EQ(json("run s.toml --steps 2 --set log.metrics=m --json")["steps"].size(), 2u);
  const std::string text = file_text(folder_.path() / "m");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace penstock::exec
