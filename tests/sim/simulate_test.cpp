// Whole predictions: every preset's schedule of a small model on a machine with plausible proportions.
#include "sim/simulate.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "shared/drive_alignment.h"
#include "shared/ir/schedule_json.h"
#include "tests/shared/policy/small_models.h"
#include "tests/sim/profile_machine.h"

namespace penstock::sim {
namespace {

/// Slow enough that kernels of a small model last longer than launches.
Machine small_machine() {
  Machine machine;
  machine.name = "small";
  machine.gpu.hbm_bytes = std::int64_t{1} << 40;
  machine.gpu.hbm_bytes_per_second = 1e10;
  machine.gpu.matmul_flops_per_second = 1e10;
  machine.gpu.launch_seconds = 1e-6;
  machine.dram_bytes = std::int64_t{1} << 40;
  machine.cpu.cores = 4;
  machine.cpu.dram_bytes_per_second = 1e9;
  machine.link.h2d = {1e8, 5e-6, {}};
  machine.link.d2h = {1e8, 5e-6, {}};
  machine.link.duplex_h2d_bytes_per_second = machine.link.duplex_d2h_bytes_per_second = 8e7;
  machine.nvme = {std::int64_t{1} << 40, 5e7, 4e7, 1e-5};
  machine.host_op_seconds = 5e-6;
  return machine;
}

/// With a drive, which every preset must find.
Machine like_a_profile() {
  Machine machine = test::profile_machine();
  machine.nvme = {std::int64_t{1} << 40, 15e6, 12e6, 1e-5};
  return machine;
}

class EveryPreset : public testing::TestWithParam<std::string> {};

TEST_P(EveryPreset, IsPredictedWithinItsBounds) {
  for (const auto& [model, machine] :
       {std::pair(small::llama(), small_machine()), std::pair(small::qwen2_tied(), small_machine()),
        std::pair(small::llama(), like_a_profile())}) {
    const Schedule schedule = make_schedule(small::input(model, GetParam()));
    const Prediction prediction = simulate(schedule, machine);
    const double step = prediction.step_seconds;
    EXPECT_GT(prediction.period_steps, 0);
    EXPECT_GE(step, prediction.bounds.same_traffic_seconds * (1 - 1e-9)) << prediction.bounds.binding;
    EXPECT_GE(step, prediction.bounds.any_schedule_seconds);
    EXPECT_GE(prediction.executed_flops, prediction.model_flops);
    EXPECT_NEAR(prediction.tokens_per_second, 8 * 32 / step, 1e-6 * prediction.tokens_per_second);
    // The timeline tells the same story as the steady state.
    EXPECT_EQ(prediction.timeline.schedule_hash, schedule_hash(schedule));
    EXPECT_EQ(prediction.timeline.ops.size(),
              schedule.ops.size() * static_cast<std::size_t>(prediction.timeline.steps));
    const std::vector<double> periods = step_periods(schedule, prediction.timeline);
    EXPECT_GE(periods.size(), 3u);
    const double mean = std::accumulate(periods.begin(), periods.end(), 0.0) / static_cast<double>(periods.size());
    EXPECT_NEAR(mean, step, 1e-9 * step);
    // Compute is busy or stalled, and every stall has a cause.
    const auto& causes = prediction.stalls.by_cause;
    EXPECT_NEAR(std::accumulate(causes.begin(), causes.end(), 0.0), prediction.stalls.total_seconds, 1e-9 * step);
    const std::vector<double> busy = lane_busy_seconds(schedule, prediction.timeline);
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      if (schedule.lanes[lane].kind == LaneKind::launch) continue;
      EXPECT_NEAR(busy[lane], prediction.lane_busy_seconds[lane], 1e-9 * step) << schedule.lanes[lane].name;
      if (static_cast<int>(lane) != schedule.ops[last_backward_op(schedule)].lane) continue;
      EXPECT_NEAR(busy[lane] + prediction.stalls.total_seconds, step, 1e-9 * step);
    }
    double critical = 0;
    for (const CriticalPart& part : prediction.critical) critical += part.seconds;
    EXPECT_NEAR(critical, periods.back(), 1e-9 * step);
  }
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetInfo& preset : presets()) names.push_back(preset.name);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Presets, EveryPreset, testing::ValuesIn(preset_names()), test_name);

TEST(Simulate, AFasterLinkNeverHurtsAndASlowOneDecides) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  Machine machine = small_machine();
  const double before = simulate(schedule, machine).step_seconds;
  machine.link.h2d.bytes_per_second = machine.link.d2h.bytes_per_second = 1e5;
  machine.link.duplex_h2d_bytes_per_second = machine.link.duplex_d2h_bytes_per_second = 0;
  const Prediction slow = simulate(schedule, machine);
  EXPECT_GT(slow.step_seconds, 2 * before);
  EXPECT_TRUE(slow.bounds.binding == "lane h2d" || slow.bounds.binding == "lane d2h") << slow.bounds.binding;
}

// A drive that reads a layer's 10 B/param of low bits and moments in 1 s and writes them in 2; AdamW takes 1.3 ms. One
// slot: (1 + 2) s for each of five layers. Two: while a layer is written the next one is read, so that reading shows
// once, 1 + 5 x 2 s.
TEST(Simulate, ASecondSlotReadsTheNextLayerWhileOneIsWritten) {
  PolicyInput in = small::input(small::llama(), "penstock");
  in.parameters.optimizer_time = OptimizerTime::end;
  in.parameters.nvme_states = 5;
  Machine machine = small_machine();
  const std::int64_t n = in.model.layers[1].state_elements;
  const auto bytes = static_cast<double>(padded_for_drive(2 * n) + 2 * padded_for_drive(4 * n));
  machine.nvme = {std::int64_t{1} << 40, bytes, bytes / 2, 0};
  double step[3];
  for (const int slots : {1, 2}) {
    in.parameters.nvme_slots = slots;
    step[slots] = simulate(make_schedule(in), machine).step_seconds;
  }
  EXPECT_NEAR(step[1] - step[2], 15 - 11, 0.01);
  in.parameters.nvme_states = 0;
  EXPECT_NEAR(step[2] - simulate(make_schedule(in), machine).step_seconds, 11, 0.01);
}

TEST(Simulate, WithoutATimelineTheStepIsTheSame) {
  const Schedule schedule = make_schedule(small::input(small::llama(), "penstock"));
  SimulateOptions quick;
  quick.record_timeline = false;
  const Prediction with = simulate(schedule, small_machine()), without = simulate(schedule, small_machine(), quick);
  EXPECT_EQ(with.step_seconds, without.step_seconds);
  EXPECT_TRUE(without.timeline.ops.empty());
  EXPECT_EQ(with.lane_busy_seconds, without.lane_busy_seconds);
}

}  // namespace
}  // namespace penstock::sim
