// The file of metrics: a line per step, none twice, and nobody else's file.
#include "exec/training/metrics_log.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "tests/exec/program/program_fixture.h"
#include "tests/shared/child_process.h"
#include "tests/shared/error_text.h"

namespace penstock::exec {
namespace {

std::string line(int step) { return "{\"step\":" + std::to_string(step) + ",\"loss\":1.5}\n"; }

class MetricsTest : public ProgramTest {
 protected:
  std::int64_t kept(const std::string& text, std::int64_t steps_before) const {
    return kept_metrics(folder_.write("m", text), steps_before).bytes;
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
  EXPECT_EQ(kept_metrics(folder_.path() / "none", 9).bytes, 0);
}

TEST_F(MetricsTest, EvaluationsStandBehindTheirStep) {
  const auto evaluation = [](int step) { return "{\"step\":" + std::to_string(step) + ",\"eval_loss\":2}\n"; };
  const std::string first = evaluation(0) + line(1), text = first + line(2) + evaluation(2) + line(3) + evaluation(3);
  const auto size = [](const std::string& part) { return static_cast<std::int64_t>(part.size()); };
  EXPECT_EQ(kept(text, 0), 0);  // begun anew
  EXPECT_EQ(kept(text, 1), size(first));
  EXPECT_EQ(kept(text, 2), size(first + line(2) + evaluation(2)));
  const auto has_evaluation = [&](const std::string& lines, std::int64_t step) {
    return kept_metrics(folder_.write("m", lines), step).has_evaluation;
  };
  EXPECT_TRUE(has_evaluation(text, 2));
  EXPECT_FALSE(has_evaluation(text, 1));
  EXPECT_FALSE(has_evaluation(first + line(2), 2));
  EXPECT_MENTIONS(refusal(line(2) + evaluation(1)), "m:2: ");
  EXPECT_MENTIONS(refusal(evaluation(2) + line(2)), "m:2: ");
}

TEST_F(MetricsTest, TheLoadBalancingLossIsSaidApart) {
  std::string config = file_text(source_folder() / "scenarios/models/tiny-qwen3-moe.json");
  folder_.write("model.json", config);
  const std::string eval =
      " --set model.layers=2 --set eval.file=random --set eval.every=1 --set eval.steps=1 --steps 1";
  const nlohmann::json without = json("run s.toml --json" + eval);
  EXPECT_FALSE(without["steps"][0].contains("balance_loss"));
  EXPECT_FALSE(without["evaluations"][0].contains("balance_loss"));
  const std::string off = "\"output_router_logits\": false";
  ASSERT_NE(config.find(off), std::string::npos);
  config.replace(config.find(off), off.size(), "\"output_router_logits\": true");
  folder_.write("model.json", config);
  const nlohmann::json with = json("run s.toml --json --set log.metrics=m" + eval);
  EXPECT_EQ(with["steps"][0]["loss"], without["steps"][0]["loss"]);  // that of the language model
  // Experts of a token, where all are met alike: untrained routers are not far from it.
  EXPECT_NEAR(with["steps"][0]["balance_loss"].get<double>(), 4, 1);
  const nlohmann::json evaluation = with["evaluations"].back();
  EXPECT_NEAR(evaluation["balance_loss"].get<double>(), 4, 1);
  const std::string text = file_text(folder_.path() / "m");
  EXPECT_NE(text.find("\"eval_balance_loss\":" + evaluation["balance_loss"].dump()), std::string::npos) << text;
  EXPECT_NE(text.find("\"balance_loss\":" + with["steps"][0]["balance_loss"].dump()), std::string::npos) << text;
  expect_error("run s.toml --steps 1 --set workload.micro_batch=1 --set workload.chunk_tokens=16", 2,
               "chunk_tokens: model asks for the load-balancing loss");
}

/// Losses of steps and evaluations are those of a run without the other, and of one that was cut in two.
TEST_F(MetricsTest, EvaluationsChangeNoStep) {
  const auto losses = [](const nlohmann::json& result, const char* list) {
    std::vector<double> all;
    for (const nlohmann::json& entry : result[list]) all.push_back(entry["loss"]);
    return all;
  };
  const std::string eval = " --set eval.file=random --set eval.every=2 --set eval.steps=2";
  const nlohmann::json with = json("run s.toml --json --steps 5" + eval), without = json("run s.toml --json --steps 5");
  EXPECT_EQ(losses(with, "steps"), losses(without, "steps"));
  ASSERT_EQ(with["evaluations"].size(), 4u);  // before the first step, after 2, 4 and the last
  EXPECT_EQ(with["evaluations"][1]["step"], 2);
  EXPECT_EQ(with["evaluations"][3]["step"], 5);
  EXPECT_FALSE(without.contains("evaluations"));
  const std::string more = " --set log.metrics=m --save c";
  EXPECT_EQ(run("run s.toml --steps 4" + eval + more).code, 0);
  const nlohmann::json rest = json("run s.toml --json --steps 1 --resume c" + eval + more);
  ASSERT_EQ(rest["evaluations"].size(), 1u);  // that after step 4 is in the file
  EXPECT_EQ(losses(rest, "evaluations").front(), losses(with, "evaluations").back());
  const std::string text = file_text(folder_.path() / "m");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
  EXPECT_EQ(run("run s.toml --set eval.every=2").code, 2);
  EXPECT_MENTIONS(run("run s.toml --set eval.every=2 --set eval.file=none").err, "none");
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
    EXPECT_GE(parsed["stall_seconds"], 0);
    EXPECT_GE(parsed["stall_share"], 0);
    EXPECT_LE(parsed["stall_share"], 1);
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
