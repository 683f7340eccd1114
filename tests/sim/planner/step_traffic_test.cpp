// The ledger of a step is what make_schedule writes: every preset, model and many parameters, op for op.
#include "sim/planner/step_traffic.h"

#include <gtest/gtest.h>

#include <random>

#include "shared/error.h"
#include "sim/cost/cost_model.h"
#include "sim/planner/step_bound.h"
#include "tests/sim/planner/any_parameters.h"
#include "tests/sim/planner/small_scenario.h"
#include "tests/sim/profile_machine.h"

namespace penstock::sim {
namespace {

bool is_small(const Access& access) {
  switch (access.value.tensor) {
    case TensorKind::tokens:
    case TensorKind::loss:
    case TensorKind::step_scalars:
    case TensorKind::norm_partial: return true;
    default: return false;
  }
}

std::int64_t bytes_of(const std::vector<Access>& accesses) {
  std::int64_t bytes = 0;
  for (const Access& access : accesses)
    if (!is_small(access)) bytes += access.bytes;
  return bytes;
}

/// The same figures of the ops that a schedule has.
class Count {
 public:
  Count(const Schedule& schedule, const Plan& plan) : schedule_(schedule), plan_(plan) {
    for (const Op& op : schedule.ops) {
      const bool on_gpu = is_gpu(schedule.lanes[static_cast<std::size_t>(op.lane)].kind);
      if (std::holds_alternative<CopyWork>(op.work)) copy(op);
      if (const auto* work = std::get_if<OptimizerWork>(&op.work)) update(op, work->elements, on_gpu);
      if (std::holds_alternative<AccumulateWork>(op.work) || std::holds_alternative<FinishGradientWork>(op.work))
        (on_gpu ? found_.gpu_finish_bytes : found_.host_sum_bytes) += bytes_of(op.reads) + bytes_of(op.writes);
      if (const auto* work = std::get_if<HostPassWork>(&op.work)) found_.host_pass_bytes += work->traffic_bytes;
    }
  }
  const StepTraffic& found() const { return found_; }

 private:
  TierKind tier(const Access& access) const {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(access.buffer)];
    return schedule_.tiers[static_cast<std::size_t>(buffer.tier)].kind;
  }

  void copy(const Op& op) {
    const Access& read = op.reads.front();
    if (is_small(read)) return;
    const TierKind from = tier(read), to = tier(op.writes.front());
    const bool in_ring = read.value.tensor == TensorKind::weights && op.phase != Phase::optimizer &&
                         !plan_.is_edge(read.value.layer) && !plan_.weights_resident(read.value.layer);
    if (from == to)
      found_.host_pass_bytes += 2 * read.bytes;
    else if (from == TierKind::nvme)
      (in_ring ? found_.ring_nvme_read : found_.nvme_read) += read.bytes;
    else if (to == TierKind::nvme)
      found_.nvme_write += read.bytes;
    else if (to == TierKind::hbm)
      (in_ring ? found_.ring_h2d : found_.h2d) += read.bytes;
    else
      found_.d2h += read.bytes;
  }

  void update(const Op& op, std::int64_t elements, bool on_gpu) {
    if (!on_gpu)
      found_.host_elements += elements;
    else
      (plan_.states_resident(op.layer) ? found_.gpu_resident_elements : found_.gpu_streamed_elements) += elements;
  }

  const Schedule& schedule_;
  const Plan& plan_;
  StepTraffic found_;
};

/// Everything but the two least figures, which may only be less.
void expect_equal(const PolicyInput& input, const std::string& what) {
  const Plan plan(input);
  const StepTraffic told = step_traffic(plan);
  const Schedule schedule = make_schedule(input);
  const StepTraffic found = Count(schedule, plan).found();
  EXPECT_EQ(told.h2d, found.h2d) << what;
  EXPECT_EQ(told.d2h, found.d2h) << what;
  EXPECT_EQ(told.nvme_read, found.nvme_read) << what;
  EXPECT_EQ(told.nvme_write, found.nvme_write) << what;
  EXPECT_EQ(told.host_elements, found.host_elements) << what;
  EXPECT_EQ(told.host_sum_bytes, found.host_sum_bytes) << what;
  EXPECT_EQ(told.host_pass_bytes, found.host_pass_bytes) << what;
  EXPECT_EQ(told.gpu_resident_elements, found.gpu_resident_elements) << what;
  EXPECT_EQ(told.gpu_streamed_elements, found.gpu_streamed_elements) << what;
  EXPECT_EQ(told.gpu_finish_bytes, found.gpu_finish_bytes) << what;
  EXPECT_LE(told.ring_h2d, found.ring_h2d) << what;
  EXPECT_LE(told.ring_nvme_read, found.ring_nvme_read) << what;
}

Model models(int index) { return index == 0 ? small::llama() : index == 1 ? small::qwen2_tied() : small::qwen3(); }

TEST(StepTraffic, IsThatOfEveryPresetsSchedule) {
  for (const PresetInfo& preset : presets())
    for (int model = 0; model < 3; ++model)
      expect_equal(small::input(models(model), preset.name), preset.name + " " + std::to_string(model));
}

TEST(StepTraffic, IsThatOfAnySchedule) {
  std::mt19937 random(3);
  int compared = 0, on_drive = 0, in_blocks = 0, summed_on_host = 0;
  for (int i = 0; i < 600; ++i) {
    PolicyInput input = small::input(models(i % 3), "penstock");
    input.parameters = test::any_parameters(random);
    if (const auto sets = small::frozen_sets(input.model); random() % 2 == 0)
      input.model = small::frozen(input.model, sets[random() % sets.size()]);
    try {
      arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    expect_equal(input, "case " + std::to_string(i) + " of " + input.parameters.name);
    ++compared;
    on_drive += Plan(input).uses_nvme();
    in_blocks += input.parameters.checkpoint_every > 1;
    summed_on_host += input.parameters.numerics.sum_on_host;
  }
  EXPECT_GT(compared, 150);
  EXPECT_GT(on_drive, 40);
  EXPECT_GT(in_blocks, 40);
  EXPECT_GT(summed_on_host, 5);
}

/// Keys and values among them, whatever the last chunk leaves over.
TEST(StepTraffic, IsThatOfSequencesThatAreCut) {
  std::mt19937 random(5);
  int compared = 0;
  for (int i = 0; i < 150; ++i) {
    PolicyInput input = small::input(models(i % 3), "penstock");
    input.parameters = test::any_parameters(random);
    input.micro_batch = 1;
    input.sequences = 4;
    input.chunk_tokens = test::any_of<std::int64_t>(random, {8, 13, 31});
    if (const auto sets = small::frozen_sets(input.model); random() % 2 == 0)
      input.model = small::frozen(input.model, sets[random() % sets.size()]);
    try {
      arena_bytes(input);
    } catch (const InputError&) {
      continue;
    }
    expect_equal(input, "case " + std::to_string(i) + " of " + input.parameters.name);
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(StepTraffic, TheLeastLoadsAreThoseOfTheGeneratorWhereNothingElseIsInTheRing) {
  for (const int buffers : {1, 2, 3, 5}) {
    PolicyInput input = small::input(small::llama(), "penstock");
    input.parameters.weight_buffers = buffers;
    const Plan plan(input);
    EXPECT_EQ(step_traffic(plan).ring_h2d, Count(make_schedule(input), plan).found().ring_h2d) << buffers;
  }
}

// The bound's compute is the price of the compute lane's ops, but for states that stream through the GPU.
TEST(StepTraffic, ComputeIsThatOfTheSchedule) {
  for (const PresetInfo& preset : presets())
    for (int model = 0; model < 3; ++model) {
      PolicyInput input = small::input(models(model), preset.name);
      if (model == 2) input.model = small::frozen(input.model, {"embed_tokens", "layers.0", "layers.3"});
      Machine machine = test::small_machine();
      machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
      const Schedule schedule = make_schedule(input);
      const std::vector<OpCost> costs = op_costs(schedule, input.model, machine);
      double seconds = 0;
      for (const Op& op : schedule.ops) {
        if (schedule.lanes[static_cast<std::size_t>(op.lane)].kind != LaneKind::gpu_compute) continue;
        if (std::holds_alternative<OptimizerWork>(op.work) && !Plan(input).states_resident(op.layer)) continue;
        const OpCost& cost = costs[static_cast<std::size_t>(op.id)];
        seconds += cost.fluid_seconds + cost.sustained_extra_seconds;
      }
      EXPECT_NEAR(step_bound(input, machine).compute, seconds, 1e-4 * seconds) << preset.name << " " << model;
    }
}

}  // namespace
}  // namespace penstock::sim
