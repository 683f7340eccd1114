#include "exec/program/watchdog.h"

#include <gtest/gtest.h>

#include "exec/program/setup.h"
#include "tests/source_folder.h"

namespace penstock::exec {
namespace {

Scenario scenario_of(const std::string& name, const std::vector<std::string>& overrides) {
  return read_scenario(source_folder() / "scenarios" / name, overrides);
}

Watchdog default_of(const Scenario& scenario, bool is_host_backend) {
  return watchdog_of({}, make_schedule(scenario.policy_input()), scenario, is_host_backend);
}

TEST(Watchdog, WhatIsGivenHolds) {
  const Scenario scenario = scenario_of("quickstart.toml", {"policy.name=megatrain"});
  const Schedule schedule = make_schedule(scenario.policy_input());
  EXPECT_EQ(watchdog_of(3.5, schedule, scenario, true).seconds, 3.5);
  EXPECT_EQ(watchdog_of(3.5, schedule, scenario, true).why, "the limit of --watchdog");
  EXPECT_EQ(watchdog_of(0.0, schedule, scenario, true).seconds, 0);
}

TEST(Watchdog, IsNeverShorterThanTwoMinutes) {
  const Watchdog small = default_of(scenario_of("quickstart.toml", {"policy.name=megatrain"}), true);
  EXPECT_EQ(small.seconds, 120);
  EXPECT_NE(small.why.find("at least 120 s; --watchdog SECONDS sets another, 0 none"), std::string::npos) << small.why;
  // On its own GPU no op of a 7B takes a second.
  EXPECT_EQ(default_of(scenario_of("qwen2.5-7b-h200.toml", {"policy.name=megatrain"}), false).seconds, 120);
}

TEST(Watchdog, GrowsWithTheLongestOpOfASlowCpu) {
  const auto seconds = [](const std::string& more) {
    return default_of(scenario_of("qwen2.5-7b-h200.toml", {"policy.name=megatrain", more}), true).seconds;
  };
  // Backward of the head: 4 FLOPs (by input and by weights) for each of 152064 x 3584 weights and 16 x 1024 tokens, at
  // 1 GFLOP/s, ten times; the log-sum and what is recomputed come on top.
  const double head = 10 * 4.0 * 152064 * 3584 * 16 * 1024 / 1e9;
  EXPECT_GE(seconds("workload.micro_batch=16"), head);
  EXPECT_LE(seconds("workload.micro_batch=16"), 2 * head);
  EXPECT_NEAR(seconds("workload.micro_batch=16") / seconds("workload.micro_batch=8"), 2, 0.1);
}

TEST(Watchdog, KnowsTheThrottleOfTheLink) {
  const Scenario slow = scenario_of("quickstart.toml", {"policy.name=megatrain", "run.link_h2d=\"1 kB/s\""});
  const Watchdog watchdog = default_of(slow, true);
  double largest = 0;
  for (const Layer& layer : slow.model.layers) {
    double elements = 0;
    for (const ParameterTensor& tensor : layer.tensors) elements += static_cast<double>(tensor.elements());
    largest = std::max(largest, elements);
  }
  EXPECT_NEAR(watchdog.seconds, 10 * 2 * largest / 1000, 0.01 * watchdog.seconds);  // bf16 weights
  EXPECT_NE(watchdog.why.find("op \"load weights"), std::string::npos) << watchdog.why;
}

TEST(Watchdog, TrustsAProfileOfACpu) {
  Scenario scenario = scenario_of("quickstart.toml", {"policy.name=megatrain", "model.layers=1"});
  scenario.machine.gpu.matmul_flops_per_second = 1e5;
  EXPECT_EQ(default_of(scenario, true).seconds, 120);  // a hardware file says nothing of this CPU
  scenario.machine.measured = true;
  EXPECT_GT(default_of(scenario, true).seconds, 1000);
}

}  // namespace
}  // namespace penstock::exec
