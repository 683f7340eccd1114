// Timelines worked out by hand, which the simulator must reproduce exactly.
#include "sim/engine/engine.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/sim/tiny_simulation.h"

namespace penstock::sim::test {
namespace {

/// Layers whose weights are uploaded into `buffers` buffers in turn, each computed when its upload is there.
struct Streamed : TinySimulation {
  Streamed(int layers, int buffers, OpCost upload_cost, double compute_seconds) {
    for (int i = 0; i < layers; ++i) {
      uploads.push_back(costs(upload("upload " + std::to_string(i), TensorKind::weights), upload_cost));
      computes.push_back(costs(compute("compute " + std::to_string(i)), alone(compute_seconds)));
      after(computes[i], {uploads[i]});
      if (i >= buffers) after(uploads[i], {computes[i - buffers]});
    }
    for (int i = 0; i < buffers; ++i) after_previous_step(uploads[i], {computes[layers - buffers + i]});
  }
  std::vector<int> uploads, computes;
};

// Uploads take 2, layers 3: with two buffers every upload runs under the layer before it. Only the first upload of all
// is seen: 2 + 4 x 3 = 14, then 12 per step.
TEST(Engine, PerfectOverlapCostsComputeOnly) {
  const Streamed tiny(4, 2, alone(2), 3);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 14);
  EXPECT_EQ(run.step_seconds, 12);
  EXPECT_EQ(run.period_steps, 1);
  EXPECT_EQ(run.lane_busy_seconds[TinySimulation::kCompute], 12);
  EXPECT_EQ(run.lane_busy_seconds[TinySimulation::kH2d], 8);
  // In steady state layer 1's buffer is free when layer 3 of the step before has ended, at the boundary; its upload
  // takes the first 2 of layer 0's 3 seconds.
  EXPECT_EQ(time_of(run, 1, tiny.uploads[1]).start, time_of(run, 1, tiny.computes[0]).start);
  EXPECT_EQ(time_of(run, 1, tiny.computes[1]).start, time_of(run, 1, tiny.computes[0]).end);
}

// Uploads take 3, layers 2: the link never rests, 4 x 3 per step; compute waits 1 before each layer.
TEST(Engine, TransferBoundStepIsTheSumOfUploads) {
  const Streamed tiny(4, 2, alone(3), 2);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 14);  // the last layer ends 2 after the fourth upload
  EXPECT_EQ(run.step_seconds, 12);
  EXPECT_EQ(run.lane_busy_seconds[TinySimulation::kH2d], 12);
  EXPECT_EQ(run.lane_busy_seconds[TinySimulation::kCompute], 8);
}

// One buffer: upload and layer take turns, 4 x (3 + 2).
TEST(Engine, OneBufferSerialisesUploadAndCompute) { EXPECT_EQ(Streamed(4, 1, alone(3), 2).run().step_seconds, 20); }

// Each layer (3) leaves an activation that takes 4 to evict; with two slots layer i waits for eviction i - 2. The
// download lane never rests: 4 x 4 per step.
TEST(Engine, EvictionBoundStepIsTheSumOfDownloads) {
  TinySimulation tiny;
  std::vector<int> computes, evictions;
  for (int i = 0; i < 4; ++i) {
    computes.push_back(tiny.costs(tiny.compute("layer"), alone(3)));
    evictions.push_back(tiny.costs(tiny.download("evict", TensorKind::boundary), alone(4)));
    tiny.after(evictions[i], {computes[i]});
    if (i >= 2) tiny.after(computes[i], {evictions[i - 2]});
  }
  tiny.after_previous_step(computes[0], {evictions[2]});
  tiny.after_previous_step(computes[1], {evictions[3]});
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.step_seconds, 16);
  EXPECT_EQ(run.lane_busy_seconds[TinySimulation::kD2h], 16);
}

// Backward (2) fills one of two slabs, which downloads (1) and is added on the host (5) before it is free again. The
// host is the bottleneck: 3 x 5 per step. Layer i + 2 starts when the sum of layer i ends.
TEST(Engine, SlabBoundStepIsTheSumOfHostAdditions) {
  TinySimulation tiny;
  std::vector<int> backwards, sums;
  for (int i = 0; i < 3; ++i) {
    backwards.push_back(tiny.costs(tiny.compute("backward", Pass::backward), alone(2)));
    const int download = tiny.costs(tiny.download("gradient", TensorKind::gradient_part), alone(1));
    sums.push_back(tiny.costs(tiny.op("add", TinySimulation::kHost, AccumulateWork{100, 1}), alone(5)));
    tiny.after(download, {backwards[i]});
    tiny.after(sums[i], {download});
  }
  tiny.after(backwards[2], {sums[0]});
  tiny.after_previous_step(backwards[0], {sums[1]});
  tiny.after_previous_step(backwards[1], {sums[2]});
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.step_seconds, 15);
  EXPECT_EQ(time_of(run, 1, backwards[2]).start, time_of(run, 1, sums[0]).end);
}

// A link of 10 each way alone, 8 while both are busy. 100 up and 40 down start together: the download takes 40 / 8 = 5,
// by when 40 are up; the other 60 go at 10: 5 + 6 = 11.
TEST(Engine, DuplexSlowsBothDirectionsWhileBothAreBusy) {
  TinySimulation tiny;
  const int up = tiny.costs(tiny.upload("up", TensorKind::weights), flow(kLinkH2d, 100, 10, TrafficClass::upload));
  const int down =
      tiny.costs(tiny.download("down", TensorKind::gradient), flow(kLinkD2h, 40, 10, TrafficClass::download));
  const int end = tiny.costs(tiny.compute("end"), alone(1));
  tiny.after(end, {up, down});
  tiny.after_previous_step(up, {end});
  tiny.after_previous_step(down, {end});
  ResourceVector limits = unlimited_resources();
  limits[kLinkH2d] = limits[kLinkD2h] = 10;
  Capacities capacities(limits);
  capacities.when(true, true, 0)[kLinkH2d] = capacities.when(true, true, 0)[kLinkD2h] = 8;
  const SimulatedRun run = tiny.run(capacities);
  EXPECT_EQ(run.step_seconds, 12);
  EXPECT_EQ(time_of(run, 0, down).end, 5);
  EXPECT_EQ(time_of(run, 0, up).end, 11);
}

// DRAM of 12. Adam alone uses 12 (24 in 2 s); an upload of 6 per second joins after 1 s, and both run at 12 / 18:
// Adam's second half takes 1.5, by when 6 of the upload's 12 are there; the rest goes at full speed, 1 s.
TEST(Engine, RatesChangeWhenAnOpStartsAndWhenOneEnds) {
  TinySimulation tiny;
  const int adam = tiny.costs(tiny.op("adam", TinySimulation::kHost, OptimizerWork{1, 1}), flow(kDram, 24, 12));
  const int first = tiny.costs(tiny.compute("first"), alone(1));
  const int up = tiny.costs(tiny.upload("up", TensorKind::weights), flow(kDram, 12, 6));
  const int last = tiny.costs(tiny.compute("last"), alone(0.5));
  tiny.after(up, {first});
  tiny.after(last, {up, adam});
  tiny.after_previous_step(adam, {last});
  ResourceVector limits = unlimited_resources();
  limits[kDram] = 12;
  const SimulatedRun run = tiny.run(Capacities(limits));
  EXPECT_DOUBLE_EQ(time_of(run, 0, adam).end, 2.5);
  EXPECT_DOUBLE_EQ(time_of(run, 0, up).end, 3.5);
  EXPECT_DOUBLE_EQ(run.step_seconds, 4);
}

// Latency uses nothing: two copies with 1 s of it and 10 at 10 per second on one link of 10. One starts at 0, the other
// at 0.5; the first flows alone from 1 to 1.5 (5 of 10), both then at half speed: the first ends at 2.5; the second,
// with 5 done, ends alone at 3.
TEST(Engine, LatencyComesFirstAndUsesNothing) {
  TinySimulation tiny;
  OpCost cost = flow(kLinkH2d, 10, 10);
  cost.latency_seconds = 1;
  const int lane = tiny.add_lane("h2d 2", LaneKind::copy_h2d);
  const int one = tiny.costs(tiny.upload("one", TensorKind::weights), cost);
  const int delay = tiny.costs(tiny.op("delay", TinySimulation::kHost, InputWork{}), alone(0.5));
  const int two = tiny.costs(tiny.copy("two", lane, 1, 0, TensorKind::weights), cost);
  const int end = tiny.costs(tiny.compute("end"), alone(1));
  tiny.after(two, {delay});
  tiny.after(end, {one, two});
  tiny.after_previous_step(one, {end});
  tiny.after_previous_step(delay, {end});
  ResourceVector limits = unlimited_resources();
  limits[kLinkH2d] = 10;
  const SimulatedRun run = tiny.run(Capacities(limits));
  EXPECT_DOUBLE_EQ(time_of(run, 0, one).end, 2.5);
  EXPECT_DOUBLE_EQ(time_of(run, 0, two).end, 3);
}

// Three layers, forward and backward 3 each, optimizer 2 and upload 1 per layer, updated in the order of the next
// forward. From the boundary: Adam 0 until 2, upload 0 until 3, forward 0 from 3 to 6; Adam 1 until 4, its upload until
// 5, under forward 0. The step is 3 + 6 x 3 = 21: of the optimizer only the first layer's 2 + 1 are seen.
TEST(Engine, NextForwardOptimizerHidesBehindTheFirstLayer) {
  TinySimulation tiny;
  std::vector<int> uploads, backwards(3), adams;
  for (int i = 0; i < 3; ++i) {
    uploads.push_back(tiny.costs(tiny.upload("upload", TensorKind::weights), alone(1)));
    const int forward = tiny.costs(tiny.compute("forward"), alone(3));
    tiny.after(forward, {uploads[i]});
  }
  for (int i = 2; i >= 0; --i) backwards[i] = tiny.costs(tiny.compute("backward", Pass::backward), alone(3));
  for (int i = 0; i < 3; ++i) {
    adams.push_back(tiny.costs(tiny.op("adam", TinySimulation::kHost, OptimizerWork{1, 1}), alone(2)));
    tiny.after(adams[i], {backwards[0]});  // the norm needs the last gradient
    tiny.after_previous_step(uploads[i], {adams[i]});
  }
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 19);  // nothing to update yet: one upload and 18 of compute
  EXPECT_EQ(run.step_seconds, 21);
}

// Four ops of 0.5 that take 1 each to launch: the launch thread is the bottleneck.
TEST(Engine, LaunchesBoundTheStep) {
  TinySimulation tiny;
  OpCost cost = alone(0.5);
  cost.launch_seconds = 1;
  for (int i = 0; i < 4; ++i) tiny.costs(tiny.compute("layer"), cost);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 4.5);
  EXPECT_EQ(run.step_seconds, 4);
}

// Launching (0.1) runs ahead of execution (1): seen once, never again.
TEST(Engine, LaunchesAheadOfExecutionCostNothing) {
  TinySimulation tiny;
  OpCost cost = alone(1);
  cost.launch_seconds = 0.125;
  for (int i = 0; i < 4; ++i) tiny.costs(tiny.compute("layer"), cost);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 4.125);
  EXPECT_EQ(run.step_seconds, 4);
}

// The thread waits for layer 0 before it launches (0.25) layer 1, so compute idles 0.25 in each step; layer 0 of the
// next step is launched while layer 1 runs.
TEST(Engine, AWaitKeepsLaunchesFromRunningAhead) {
  TinySimulation tiny;
  OpCost cost = alone(1);
  cost.launch_seconds = 0.25;
  const int first = tiny.costs(tiny.compute("layer 0"), cost);
  const int wait = tiny.costs(tiny.op("wait", TinySimulation::kLaunch, WaitWork{first, 0}), {});
  const int second = tiny.costs(tiny.compute("layer 1"), cost);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.step_seconds, 2.25);
  EXPECT_EQ(time_of(run, 1, wait).end, time_of(run, 1, first).end);
  EXPECT_EQ(time_of(run, 1, second).start, time_of(run, 1, first).end + 0.25);
  // It arrived at the wait when layer 0 had been launched, 0.25 after it had launched layer 1 of the step before.
  EXPECT_EQ(time_of(run, 1, wait).start, time_of(run, 0, second).start + 0.25);
}

// The same, and the thread takes 0.125 to wake up. A wait for what had ended before the thread arrived costs nothing.
TEST(Engine, AThreadThatStandsInAWaitHasToBeWoken) {
  TinySimulation tiny;
  OpCost cost = alone(1), wake;
  cost.launch_seconds = 0.25;
  wake.latency_seconds = 0.125;
  const int first = tiny.costs(tiny.compute("layer 0"), cost);
  const int wait = tiny.costs(tiny.op("wait", TinySimulation::kLaunch, WaitWork{first, 0}), wake);
  tiny.costs(tiny.op("again", TinySimulation::kLaunch, WaitWork{first, 0}), wake);
  tiny.costs(tiny.compute("layer 1"), cost);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.step_seconds, 2.375);
  EXPECT_EQ(time_of(run, 1, wait).end, time_of(run, 1, first).end + 0.125);
}

// Burst 10, sustained 12. Without a pause duty is 1 and every step takes 12.
TEST(Engine, AGpuThatNeverPausesRunsAtItsSustainedRate) {
  TinySimulation tiny;
  OpCost cost = alone(10);
  cost.sustained_extra_seconds = 2;
  tiny.costs(tiny.compute("layer"), cost);
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.first_step_seconds, 10);  // cold
  EXPECT_EQ(run.step_seconds, 12);
}

/// A layer of 10 (12 sustained), then 10 on the host.
TinySimulation half_idle_gpu() {
  TinySimulation tiny;
  OpCost cost = alone(10);
  cost.sustained_extra_seconds = 2;
  const int layer = tiny.costs(tiny.compute("layer"), cost);
  const int host = tiny.costs(tiny.op("adam", TinySimulation::kHost, OptimizerWork{1, 1}), alone(10));
  tiny.after(host, {layer});
  tiny.after_previous_step(layer, {host});
  return tiny;
}

// T = 20 + 2 d with d = (10 + 2 d) / T, so 2 d^2 + 18 d - 10 = 0, d =
// 0.524937810560445.
TEST(Engine, AGpuThatIdlesRunsFaster) {
  const TinySimulation tiny = half_idle_gpu();
  const SimulatedRun run = tiny.run();
  EXPECT_NEAR(run.step_seconds, 20 + 2 * 0.524937810560445, 1e-10);
  EXPECT_EQ(run.period_steps, 1);
}

// The same with a time constant of 10. Let the average be a when the op begins: over its 10 s in a burst the mean is
// d = 1 - (1 - a) (1 - exp(-1)), so the op takes 10 + 2 d and leaves 1 - (1 - a) exp(-(10 + 2 d) / 10), of which 10 s
// on the host leave exp(-1). The fixed point is a = 0.280575, d = 0.545236.
TEST(Engine, WithATimeConstantAGpuRemembersWhatItDidLately) {
  const TinySimulation tiny = half_idle_gpu();
  Capacities capacities(unlimited_resources());
  capacities.power_settle_seconds = 10;
  EXPECT_NEAR(tiny.run(capacities).step_seconds, 21.09047287412259, 1e-9);
  // Much shorter than a step: throttled as soon as it works. Much longer: at first as good as cold, 10 / (2 x 10^4).
  capacities.power_settle_seconds = 0.001;
  EXPECT_NEAR(tiny.run(capacities).step_seconds, 22, 1e-3);
  capacities.power_settle_seconds = 1e4;
  EXPECT_NEAR(tiny.run(capacities).first_step_seconds, 10 + 2 * 0.0005, 1e-5);
}

// A cycle through two steps: X (3) -> Y (3) -> Z (1) of the next step -> W (1) -> X of the one after it. 8 for two
// steps, and ends of Y at 6, 9, 14, 17, 22, ...: periods 3 and 5 in turn.
TEST(Engine, FindsPeriodsOfSeveralSteps) {
  TinySimulation tiny;
  const int lane_z = tiny.add_lane("z", LaneKind::host), lane_w = tiny.add_lane("w", LaneKind::host);
  const int x = tiny.costs(tiny.op("x", TinySimulation::kHost, InputWork{}), alone(3));
  const int y = tiny.costs(tiny.compute("y"), alone(3));
  const int z = tiny.costs(tiny.op("z", lane_z, InputWork{}), alone(1));
  const int w = tiny.costs(tiny.op("w", lane_w, InputWork{}), alone(1));
  tiny.after(y, {x});
  tiny.after(w, {z});
  tiny.after_previous_step(z, {y});
  tiny.after_previous_step(x, {w});
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.period_steps, 2);
  EXPECT_EQ(run.step_seconds, 4);
  EXPECT_EQ(run.recorded_steps, 7);
  EXPECT_EQ(time_of(run, 2, y).end - time_of(run, 0, y).end, 8);
}

// A host op that nobody waits for takes 3 per step, compute 1. Three steps are in flight at most, so compute runs ahead
// by that much and then keeps the host's pace.
TEST(Engine, ALaneThatFallsBehindHoldsTheOthersThreeStepsLater) {
  TinySimulation tiny;
  tiny.costs(tiny.compute("layer"), alone(1));
  tiny.costs(tiny.op("report", TinySimulation::kHost, ReportWork{}), alone(3));
  const SimulatedRun run = tiny.run();
  EXPECT_EQ(run.step_seconds, 3);
}

// Layer (1), update (1), then two writes of 2, one behind the other, for which nobody waits. A layer waits for the update
// of the step before, so that a step takes 2 and the writes of one end 6 after its layer began: when the third after it
// begins. Were the second held until then, a step would take 3.
TEST(Engine, LaunchesBesideWhatIsWrittenBehindTheStepBeforeTheLast) {
  TinySimulation tiny;
  const int lane_low = tiny.add_lane("low bits", LaneKind::host), lane_m = tiny.add_lane("m", LaneKind::host);
  const int layer = tiny.costs(tiny.compute("layer"), alone(1));
  const int update = tiny.costs(tiny.op("update", TinySimulation::kHost, InputWork{}), alone(1));
  const int low = tiny.costs(tiny.op("write low bits", lane_low, InputWork{}), alone(2));
  const int m = tiny.costs(tiny.op("write m", lane_m, InputWork{}), alone(2));
  tiny.after(update, {layer});
  tiny.after(low, {update});
  tiny.after(m, {low});
  tiny.after_previous_step(layer, {update});
  EXPECT_EQ(tiny.run().step_seconds, 2);
}

TEST(Engine, ZeroCostsEndAtOnce) {
  TinySimulation tiny;
  const int first = tiny.costs(tiny.compute("first"), {});
  const int second = tiny.costs(tiny.op("second", TinySimulation::kHost, ReportWork{}), {});
  tiny.after(second, {first});
  EXPECT_EQ(tiny.run().step_seconds, 0);
}

TEST(Engine, NamesWhatIsBlockedWhenAScheduleDeadlocks) {
  TinySimulation tiny;
  const int first = tiny.costs(tiny.compute("first"), alone(1));
  const int second = tiny.costs(tiny.op("second", TinySimulation::kHost, ReportWork{}), alone(1));
  tiny.after(first, {second});
  tiny.after(second, {first});
  try {
    tiny.run();
    FAIL() << "a cycle ran to its end";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("first of step 0 waits for second"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("second of step 0 waits for first"), std::string::npos) << error.what();
  }
}

TEST(Engine, GivesTheMeanOfTheLastHalfWhenNothingRepeats) {
  TinySimulation tiny;
  tiny.costs(tiny.compute("layer"), alone(1));
  // One step cannot repeat anything; two can only repeat each other. The first begins idle, as the second does.
  const SimulatedRun run = simulate_costs(tiny.schedule, tiny.costs_, Capacities(unlimited_resources()), {2, false});
  EXPECT_EQ(run.period_steps, 1);
  TinySimulation slow;
  OpCost cost = alone(10);
  cost.sustained_extra_seconds = 9;
  const int layer = slow.costs(slow.compute("layer"), cost);
  const int host = slow.costs(slow.op("adam", TinySimulation::kHost, OptimizerWork{1, 1}), alone(10));
  slow.after(host, {layer});
  slow.after_previous_step(layer, {host});
  const SimulatedRun early = simulate_costs(slow.schedule, slow.costs_, Capacities(unlimited_resources()), {3, true});
  EXPECT_EQ(early.period_steps, 0);
  // Steps: 10; then 10 of host and 10 + 9 duty: duty 1 after the first (busy all of its 10), so 29; then 19 / 29.
  EXPECT_NEAR(early.step_seconds, 20 + 9 * 19.0 / 29, 1e-12);
  EXPECT_EQ(early.recorded_steps, 4);
}

// CPU threads get 10 each, whoever runs them. Two lanes of 3 and 2 threads ask for 25 and 15 per second: their 5
// threads get 50, and neither waits. Were it the 3 of the larger, both would run at 30 / 40 of their speed and take 16/3.
TEST(Engine, ThreadsOfConcurrentHostLanesAddUp) {
  TinySimulation tiny;
  const int other = tiny.add_lane("other host", LaneKind::host);
  OpCost many = flow(kCpuTraffic, 100, 25, TrafficClass::cpu), few = flow(kCpuTraffic, 60, 15, TrafficClass::cpu);
  many.threads = 3;
  few.threads = 2;
  const int first = tiny.costs(tiny.op("first", TinySimulation::kHost, OptimizerWork{1, 3}), many);
  const int second = tiny.costs(tiny.op("second", other, OptimizerWork{1, 2}), few);
  const int end = tiny.costs(tiny.compute("end"), alone(1));
  tiny.after(end, {first, second});
  tiny.after_previous_step(first, {end});
  tiny.after_previous_step(second, {end});
  Capacities capacities(unlimited_resources(), 8);
  for (int threads = 1; threads <= 8; ++threads) capacities.when(false, false, threads)[kCpuTraffic] = 10.0 * threads;
  const SimulatedRun run = tiny.run(capacities);
  EXPECT_DOUBLE_EQ(time_of(run, 0, first).end, 4);
  EXPECT_DOUBLE_EQ(time_of(run, 0, second).end, 4);
  EXPECT_DOUBLE_EQ(run.step_seconds, 5);
}

// Alone the drive reads and writes at full speed, together at 3/4 and 1/4: of a read of 3 and a write of 2, together
// until the read has ended at 4, the write has 1 left and then goes alone until 5. By equal shares of its time both
// would go at 1/2 and the write end first.
TEST(Engine, ADriveThatReadsAndWritesGivesEachWhatWasMeasured) {
  TinySimulation tiny;
  OpCost reads = flow(kNvmeRead, 3, 1), writes = flow(kNvmeWrite, 2, 1);
  const int read = tiny.costs(tiny.op("read", tiny.add_lane("nvme read", LaneKind::nvme_read), InputWork{}), reads);
  const int write =
      tiny.costs(tiny.op("write", tiny.add_lane("nvme write", LaneKind::nvme_write), InputWork{}), writes);
  const int end = tiny.costs(tiny.compute("end"), alone(1));
  tiny.after(end, {read, write});
  tiny.after_previous_step(read, {end});
  tiny.after_previous_step(write, {end});
  ResourceVector capacity = unlimited_resources();
  capacity[kNvmeRead] = capacity[kNvmeWrite] = 1;
  Capacities capacities(capacity);
  capacities.nvme_read_beside_writes = 0.75;
  capacities.nvme_write_beside_reads = 0.25;
  const SimulatedRun run = tiny.run(capacities);
  EXPECT_DOUBLE_EQ(time_of(run, 0, read).end, 4);
  EXPECT_DOUBLE_EQ(time_of(run, 0, write).end, 5);
  EXPECT_DOUBLE_EQ(run.step_seconds, 6);
}

// Each kind of lane waits for the step before it where an edge says so: 2 for the op on it, then 3 of compute, and the
// next step's op only then. Were the edge lost, the lane would run ahead, and steps would take 3.
TEST(Engine, EveryKindOfLaneWaitsForTheStepBefore) {
  for (const LaneKind kind : {LaneKind::copy_h2d, LaneKind::copy_d2h, LaneKind::copy_both, LaneKind::host,
                              LaneKind::nvme_read, LaneKind::nvme_write}) {
    TinySimulation tiny;
    const int lane = tiny.add_lane("lane under test", kind);
    const int early = tiny.costs(tiny.op("early", lane, ReportWork{}), alone(2));
    const int late = tiny.costs(tiny.compute("late"), alone(3));
    tiny.after(late, {early});
    tiny.after_previous_step(early, {late});
    EXPECT_EQ(tiny.run().step_seconds, 5) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace penstock::sim::test
