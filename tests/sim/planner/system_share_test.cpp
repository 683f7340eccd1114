// A plan leaves what a real machine keeps: of host memory for the system, of the GPU's for context and libraries.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/planner/open_policy.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::sim {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;

/// 6 billion parameters on a desktop, where all of 64 GiB was once planned with, but for 8 MiB.
class SystemShare : public testing::Test {
 protected:
  SystemShare() {
    folder_.write("model.json", R"({"model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-05,
      "rope_theta": 10000.0, "max_position_embeddings": 4096, "tie_word_embeddings": false, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4,
      "vocab_size": 64000})");
    folder_.write("machine.toml", R"(name = "desktop"
[gpu]
name = "card"
hbm = "24 GiB"
hbm_bandwidth = "936 GB/s"
matmul = "62 TFLOP/s"
launch = "5 us"
[dram]
capacity = "64 GiB"
bandwidth = "60 GB/s"
[cpu]
cores = 16
adamw = "1.4 Gparam/s"
host_op = "10 us"
[link]
h2d = "24 GB/s"
d2h = "24 GB/s"
latency = "10 us"
)");
    folder_.write("s.toml", R"([model]
config = "model.json"
[machine]
hardware = "machine.toml"
[workload]
sequence_length = 2048
sequences = 1
micro_batch = 1
[policy]
name = "penstock"
[run]
deterministic = false
)");
  }
  /// The arenas of the plan.
  ArenaBytes planned(const std::vector<std::string>& overrides) const {
    Scenario scenario = read_scenario(folder_.path() / "s.toml", overrides);
    apply(decide(scenario), scenario);
    return arena_bytes(scenario.policy_input());
  }
  void expect_left(const std::vector<std::string>& overrides, std::int64_t hbm_bytes, std::int64_t dram_bytes) const {
    const ArenaBytes arenas = planned(overrides);
    EXPECT_LE(arenas.hbm, hbm_bytes) << overrides.front();
    EXPECT_LE(arenas.dram, dram_bytes) << overrides.front();
    EXPECT_GT(arenas.dram, dram_bytes - kGiB) << overrides.front();  // it is tight: the share is what decides
  }

  TemporaryFolder folder_;
};

// By default 1.5 GiB and 4 % of DRAM, 1 GiB and 1 % of HBM (docs/scenario.md).
TEST_F(SystemShare, OfADesktopIsLeftByDefault) {
  expect_left({"machine.dram=\"66 GiB\""}, 24 * kGiB * 99 / 100 - kGiB, 66 * kGiB * 96 / 100 - 1536 * kMiB);
  expect_left({"model.layers=16", "machine.dram=\"36 GiB\"", "machine.hbm=\"16 GiB\""}, 16 * kGiB * 99 / 100 - kGiB,
              36 * kGiB * 96 / 100 - 1536 * kMiB);
}

TEST_F(SystemShare, IsWhatTheScenarioSays) {
  const std::string nothing = "machine.context=\"0 B\"";
  expect_left({"machine.reserve=\"0 B\"", nothing}, 24 * kGiB, 64 * kGiB);
  expect_left({"machine.reserve=\"1500 MiB\"", nothing}, 24 * kGiB, 64 * kGiB - 1500 * kMiB);
  expect_left({"machine.reserve=\"3 GiB\"", "machine.context=\"600 MiB\""}, 24 * kGiB - 600 * kMiB, 61 * kGiB);
}

}  // namespace
}  // namespace penstock::sim
