// In which order the steps of schedules update layers, and updates that wait until they have been read.
#include "exec/checkpoint/state_updates.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/recorder.h"
#include "tests/exec/runtime/small_run.h"

namespace penstock::exec {
namespace {

StateUpdates updates_of(const PolicyInput& in) { return state_updates(make_schedule(in), in.model); }

PolicyInput input(const char* preset) { return small::input(small::llama(), preset); }

TEST(StateUpdates, FollowTheSchedule) {
  PolicyInput in = input("megatrain");
  in.parameters.optimizer_time = OptimizerTime::backward;  // as gradients land: from the head down
  in.parameters.numerics.clip = false;
  const int last = in.model.layer_count() - 1;
  StateUpdates updates = updates_of(in);
  EXPECT_EQ(updates.order.front(), last);
  EXPECT_EQ(updates.order.back(), 0);
  EXPECT_EQ(updates.on_gpu, 0);
  in.parameters.optimizer_time = OptimizerTime::next_forward;
  updates = updates_of(in);
  for (int layer = 0; layer <= last; ++layer) EXPECT_EQ(updates.order[static_cast<std::size_t>(layer)], layer);
  for (int layer = 1; layer <= last; ++layer)
    EXPECT_LT(updates.first_op[static_cast<std::size_t>(layer - 1)], updates.first_op[static_cast<std::size_t>(layer)]);
  // Every op that writes states says whose.
  std::vector<int> writers(in.model.layers.size());
  for (const std::vector<int>& layers : updates.layers)
    for (const int layer : layers) ++writers[static_cast<std::size_t>(layer)];
  EXPECT_EQ(writers, std::vector<int>(in.model.layers.size(), 1));
}

TEST(StateUpdates, WhatLiesOnTheGpuComesFirst) {
  PolicyInput in = input("penstock");
  in.parameters = preset_parameters("megatrain");
  in.parameters.numerics.states = StateFormat::planes;
  in.parameters.optimizer_time = OptimizerTime::next_forward;
  in.parameters.resident_states = 2;
  in.parameters.resident_weights = 2;
  const StateUpdates updates = updates_of(in);
  EXPECT_EQ(updates.on_gpu, 2);
  EXPECT_EQ(updates_of(input("resident")).on_gpu, in.model.layer_count());
}

TEST(StateUpdates, WhatIsFrozenComesLast) {
  PolicyInput in = small::input(small::frozen(small::llama(), {"layers.0-2"}), "zero3-offload");
  const StateUpdates updates = updates_of(in);
  for (const int layer : {1, 2, 3}) EXPECT_EQ(updates.first_op[static_cast<std::size_t>(layer)], -1);
  EXPECT_EQ((std::vector<int>(updates.order.end() - 3, updates.order.end())), (std::vector<int>{1, 2, 3}));
}

TEST(StateUpdates, TrainingWaitsForTheGpuThenForTheLatest) {
  StateUpdates updates;
  updates.order = {4, 2, 0, 3, 1};
  updates.on_gpu = 2;
  updates.first_op = {7, -1, 1, 9, 2};
  const std::vector<double> writes = {2, 16, 1, 4, 3};  // 4 and 2 are written after 4 s, 0 2 s later, 3 6 s, 1 22 s
  const auto stall = [&](double first, double second) {
    return stall_of_save(updates, writes, std::vector<double>{first, 0, 0, second, 0});
  };
  EXPECT_DOUBLE_EQ(stall(2, 6), 4);  // those on the GPU alone; nothing updates 1
  EXPECT_DOUBLE_EQ(stall(1.5, 6), 4.5);
  EXPECT_DOUBLE_EQ(stall(1.5, 3), 7);  // one wait moves all that comes after it: the longest counts
  updates.on_gpu = 0;
  EXPECT_DOUBLE_EQ(stall_of_save(updates, writes, std::vector<double>{0, 0, 5, 9, 1}), 6);  // 0 at 6 s, due at once
}

std::vector<float> masters(SmallRun& run, int layer) {
  const Layer& own = run.model().layers[static_cast<std::size_t>(layer)];
  std::vector<float> values(static_cast<std::size_t>(own.state_elements));
  run.training().states().read_layer(layer, StatePart::master, 0, values);
  return values;
}

// Whoever reads a layer before it opens its gate finds it as it was between the steps, whenever that is; the training
// goes on to the bits of one without gates. Policies that update on the host, on the GPU from states in memory, as
// gradients land and under the next forward.
TEST(UpdateGates, ALayerStaysAsItIsUntilItsGateIsOpened) {
  for (const char* policy : {"megatrain", "zero3-offload", "ml-dataflow", "penstock"}) {
    SCOPED_TRACE(policy);
    const PolicyInput in = input(policy);
    SmallRun gated(in), plain(in);
    for (SmallRun* run : {&gated, &plain}) run->training().load(*random_states(3));
    const StateUpdates updates = state_updates(gated.schedule(), gated.model());
    gated.training().gate_updates(updates);
    UpdateGates gates(gated.model().layer_count());
    gates.close();
    std::vector<std::vector<float>> before;
    for (int layer = 0; layer < gated.model().layer_count(); ++layer) before.push_back(masters(gated, layer));
    TrainingOptions options = gated.options(2);
    options.executor.gates = &gates;
    {
      const std::jthread training([&] { gated.training().run(options); });
      for (const int layer : updates.order) {
        EXPECT_TRUE(masters(gated, layer) == before[static_cast<std::size_t>(layer)]) << layer;
        gates.open(layer);
      }
    }
    plain.training().run(plain.options(2));
    EXPECT_EQ(gated.bits(), plain.bits());
    EXPECT_EQ(gated.training().states().fingerprint(), plain.training().states().fingerprint());
    EXPECT_GE(gates.waited_seconds(), 0);
    // Open gates hold up nothing, given or not.
    options.executor.gates = nullptr;
    options.executor.steps = 1;
    gated.training().run(options);
    plain.training().run(plain.options(1));
    EXPECT_EQ(gated.bits(), plain.bits());
  }
}

TEST(UpdateGates, WaitsOfSeveralLanesCountFromTheFirstToTheLast) {
  UpdateGates gates(1);
  const std::int64_t before = now_ns();
  std::int64_t begun = 0, ended = 0;
  {
    const UpdateGates::Waiting first(&gates);
    begun = now_ns();
    while (now_ns() < begun + 1'000'000) continue;
    { const UpdateGates::Waiting second(&gates); }
    EXPECT_EQ(gates.waited_seconds(), 0);  // the first still waits
    ended = now_ns();
  }
  const double once = gates.waited_seconds();
  EXPECT_GE(once, static_cast<double>(ended - begun) * 1e-9);
  EXPECT_LE(once, static_cast<double>(now_ns() - before) * 1e-9);
  { const UpdateGates::Waiting later(&gates); }
  EXPECT_GE(gates.waited_seconds(), once);
  gates.close();
  EXPECT_EQ(gates.waited_seconds(), 0);
}

TEST(UpdateGates, AnAbortEndsTheWait) {
  SmallRun run(input("megatrain"));
  run.training().load(*random_states(3));
  run.training().gate_updates(state_updates(run.schedule(), run.model()));
  UpdateGates gates(run.model().layer_count());
  gates.close();
  TrainingOptions options = run.options(3);
  options.executor.gates = &gates;
  options.executor.watchdog_seconds = 0.3;
  try {
    run.training().run(options);
    FAIL() << "nothing waited";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("to be in the checkpoint that is being written"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace penstock::exec
