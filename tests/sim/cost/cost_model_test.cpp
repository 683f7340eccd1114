// Ops of hand-written schedules on a machine with round figures.
#include "sim/cost/cost_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "shared/error.h"
#include "sim/cost/bounds.h"
#include "sim/cost/rates.h"
#include "tests/shared/policy/small_models.h"
#include "tests/shared/timeline/tiny_schedule.h"

namespace penstock::sim {
namespace {

using penstock::test::TinySchedule;

/// Link 10 up and 5 down, 0.5 of latency; DRAM 100 for 4 cores; HBM 1000 of which half for elementwise work.
Machine round_machine() {
  Machine machine;
  machine.source = "round.toml";
  machine.gpu.hbm_bytes_per_second = 1000;
  machine.gpu.matmul_flops_per_second = 1e6;
  machine.gpu.attention_forward_efficiency = 1;
  machine.gpu.elementwise_efficiency = 0.5;
  machine.gpu.launch_seconds = 0.001;
  machine.cpu.cores = 4;
  machine.cpu.dram_bytes_per_second = 100;
  machine.link.h2d = {10, 0.5, {}};
  machine.link.d2h = {5, 0.5, {}};
  machine.link.duplex_h2d_bytes_per_second = 8;
  machine.host_op_seconds = 0.01;
  return machine;
}

struct Priced : TinySchedule {
  Machine machine = round_machine();
  Model model;

  /// Of the first decoder layer.
  int compute(const std::string& name, Pass pass = Pass::forward) {
    const int id = TinySchedule::compute(name, pass);
    schedule.ops[static_cast<std::size_t>(id)].layer = 1;
    return id;
  }
  OpCost cost(int op) const { return op_costs(schedule, model, machine)[op]; }
};

TEST(CostModel, ACopyTakesTheLinkAndWhatLiesBehindIt) {
  Priced tiny;
  const OpCost cost = tiny.cost(tiny.upload("up", TensorKind::weights, 100));
  EXPECT_EQ(cost.latency_seconds, 0.5);
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 10);
  EXPECT_DOUBLE_EQ(cost.demand[kLinkH2d], 10);
  EXPECT_DOUBLE_EQ(cost.demand[kDram], 10);
  EXPECT_DOUBLE_EQ(cost.demand[kHbm], 10);
  EXPECT_EQ(cost.demand[kLinkD2h], 0);
  EXPECT_EQ(cost.demand[kCores], 0);
  EXPECT_EQ(cost.traffic, TrafficClass::upload);
  EXPECT_EQ(cost.launch_seconds, 0.001);
  const OpCost down = tiny.cost(tiny.download("down", TensorKind::gradient, 100));
  EXPECT_DOUBLE_EQ(down.fluid_seconds, 20);
  EXPECT_DOUBLE_EQ(down.demand[kLinkD2h], 5);
  EXPECT_EQ(down.traffic, TrafficClass::download);
}

// Four bursts of 25: 4 x (0.5 + 2.5) = 12. The first latency stands apart, the rest flows at 100 / 11.5.
TEST(CostModel, SmallBurstsLowerTheRate) {
  Priced tiny;
  const int up = tiny.upload("up", TensorKind::weights, 100);
  tiny.schedule.ops[up].work = CopyWork{{{25, 4}}};
  const OpCost cost = tiny.cost(up);
  EXPECT_EQ(cost.latency_seconds, 0.5);
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 11.5);
  EXPECT_DOUBLE_EQ(cost.demand[kLinkH2d], 100 / 11.5);
  EXPECT_DOUBLE_EQ(cost.launch_seconds, 0.004);
}

// On one lane for both directions the tiers say which way a copy goes.
TEST(CostModel, ASharedCopyLaneTakesTheDirectionOfItsTiers) {
  Priced tiny;
  const int lane = tiny.add_lane("copy", LaneKind::copy_both);
  const int up = tiny.copy("up", lane, 1, 0, TensorKind::weights);
  const int down = tiny.copy("down", lane, 0, 1, TensorKind::gradient);
  EXPECT_EQ(tiny.cost(up).traffic, TrafficClass::upload);
  EXPECT_EQ(tiny.cost(down).traffic, TrafficClass::download);
}

// 1000 parameters, 26 bytes each, at half of DRAM's 100 for 2 of 4 cores.
TEST(CostModel, AHostOptimizerTakesDramAndItsThreads) {
  Priced tiny;
  const OpCost cost = tiny.cost(tiny.op("adam", TinySchedule::kHost, OptimizerWork{1000, 2}));
  EXPECT_EQ(cost.latency_seconds, 0.01);
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 520);
  EXPECT_DOUBLE_EQ(cost.demand[kDram], 50);
  EXPECT_DOUBLE_EQ(cost.demand[kCpuTraffic], 50);
  EXPECT_DOUBLE_EQ(cost.demand[kCores], 2);
  EXPECT_EQ(cost.threads, 2);
  EXPECT_EQ(cost.traffic, TrafficClass::cpu);
  EXPECT_EQ(cost.launch_seconds, 0);
}

// On the GPU the same bytes go through half of HBM's 1000.
TEST(CostModel, AGpuOptimizerTakesHbm) {
  Priced tiny;
  const OpCost cost = tiny.cost(tiny.op("adam", TinySchedule::kCompute, OptimizerWork{1000, 1}));
  EXPECT_EQ(cost.latency_seconds, 0);
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 52);
  EXPECT_DOUBLE_EQ(cost.demand[kHbm], 500);
  EXPECT_EQ(cost.demand[kDram], 0);
  EXPECT_EQ(cost.launch_seconds, 0.001);
}

// A sum reads 200 (part) + 400 (sum) and writes 400: 1000 bytes at 25 for one thread.
TEST(CostModel, HostWorkGoesByTheBytesItTouches) {
  Priced tiny;
  const int add = tiny.op("add", TinySchedule::kHost, AccumulateWork{100, 1});
  tiny.schedule.ops[add].reads = {{1, 0, 200, {TensorKind::gradient_part, 1}},
                                  {1, 0, 400, {TensorKind::gradient_sum, 1}}};
  tiny.schedule.ops[add].writes = {{1, 0, 400, {TensorKind::gradient_sum, 1}}};
  EXPECT_DOUBLE_EQ(tiny.cost(add).fluid_seconds, 40);
  const int pass = tiny.op("scan", TinySchedule::kHost, HostPassWork{1000, 4});
  EXPECT_DOUBLE_EQ(tiny.cost(pass).fluid_seconds, 10);
  // 500 bytes read and written again, by one thread and by four.
  for (const int threads : {1, 4}) {
    const int copy = tiny.op("copy", TinySchedule::kHost, CopyWork{{{500, 1}}, threads});
    tiny.schedule.ops[copy].reads = tiny.schedule.ops[copy].writes = {{1, 0, 500, {TensorKind::weights, 1}}};
    EXPECT_DOUBLE_EQ(tiny.cost(copy).fluid_seconds, threads == 1 ? 40 : 10);
  }
  const int report = tiny.op("report", TinySchedule::kHost, ReportWork{});
  EXPECT_EQ(tiny.cost(report).fluid_seconds, 0);
  EXPECT_EQ(tiny.cost(report).latency_seconds, 0.01);
}

// Decoder forward of the small model, 64 tokens: matmuls 64 x 128 + 64 x 64 + 64 x 256 + 128 x 64 = 36 864 weights, 2 x
// 64 FLOPs each = 4 718 592; attention 2 x 2 sequences x 4 heads x 16 x 32^2 = 262 144. With memory out of the way, 1e6
// per second.
TEST(CostModel, ATemplateIsTheSumOfItsKernels) {
  Priced tiny;
  tiny.model = small::llama();
  tiny.schedule.micro_batch = {2, 32};
  tiny.machine.gpu.hbm_bytes_per_second = 1e18;
  const int forward = tiny.compute("forward");
  EXPECT_NEAR(tiny.cost(forward).fluid_seconds, 4.980736, 1e-6);
  EXPECT_EQ(tiny.cost(forward).sustained_extra_seconds, 0);
  EXPECT_EQ(executed_flops(tiny.schedule, tiny.model), 4980736);
  // Norms, rotary, swiglu, attention and four matmuls are launched one by one.
  EXPECT_NEAR(tiny.cost(forward).launch_seconds, 0.009, 1e-12);
  // At a burst rate of twice that the matmuls take half, but attention does not reach the power limit.
  tiny.machine.gpu.matmul_burst_flops_per_second = 2e6;
  EXPECT_NEAR(tiny.cost(forward).fluid_seconds, 2.359296 + 0.262144, 1e-6);
  EXPECT_NEAR(tiny.cost(forward).sustained_extra_seconds, 2.359296, 1e-6);
}

// Another system's implementation: each template op takes the launching thread a while longer, and passes over host
// memory get no more than 20 of the 100, while AdamW has its own rate.
TEST(CostModel, SoftwareCostsBeyondTheSchedule) {
  Priced tiny;
  tiny.model = small::llama();
  tiny.schedule.micro_batch = {2, 32};
  tiny.machine.software = {"other", 0.25, 20};
  EXPECT_NEAR(tiny.cost(tiny.compute("forward")).launch_seconds, 0.009 + 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(tiny.cost(tiny.op("scan", TinySchedule::kHost, HostPassWork{1000, 4})).fluid_seconds, 50);
  EXPECT_DOUBLE_EQ(tiny.cost(tiny.op("adam", TinySchedule::kHost, OptimizerWork{1000, 2})).fluid_seconds, 520);
}

// A checkpoint that runs the whole layer again makes the layer's output too: 128 x 64 weights, 2 x 64 FLOPs each. The
// first forward makes it anyway.
TEST(CostModel, SoftwareMayRecomputeTheOutputOfALayer) {
  Priced tiny;
  tiny.model = small::llama();
  tiny.schedule.micro_batch = {2, 32};
  tiny.machine.gpu.hbm_bytes_per_second = 1e18;
  const int forward = tiny.compute("forward");
  const int again = tiny.compute("again", Pass::recompute);
  const double first = tiny.cost(forward).fluid_seconds, ours = tiny.cost(again).fluid_seconds;
  tiny.machine.software.recomputes_output = true;
  EXPECT_NEAR(tiny.cost(again).fluid_seconds, ours + 1.048576, 1e-6);
  EXPECT_EQ(tiny.cost(forward).fluid_seconds, first);
}

// The CPU as a GPU: a template takes one core, a copy is a memcpy that reads and writes DRAM at a rate of 20, 25 being
// what one core can do; every op costs its hand-over instead of a launch.
TEST(CostModel, OnAHostGpuEverythingTakesCores) {
  Priced tiny;
  tiny.machine.gpu.is_host = true;
  tiny.model = small::llama();
  tiny.schedule.micro_batch = {2, 32};
  const OpCost forward = tiny.cost(tiny.compute("forward"));
  EXPECT_DOUBLE_EQ(forward.demand[kCores], 1);
  EXPECT_EQ(forward.demand[kHbm], 0);
  EXPECT_GT(forward.demand[kDram], 0);
  EXPECT_EQ(forward.launch_seconds, 0);
  EXPECT_EQ(forward.latency_seconds, 0.01);
  const OpCost up = tiny.cost(tiny.upload("up", TensorKind::weights, 100));
  EXPECT_DOUBLE_EQ(up.demand[kDram], 20);
  EXPECT_DOUBLE_EQ(up.demand[kCores], 0.8);
  EXPECT_EQ(up.latency_seconds, 0.51);
}

// 64 MiB in sixteen pieces, of which the link moves one in a second and a thread one in half a second: the link sets the
// rate, and half a second is left over at the beginning. A byte is read from memory, written to a slot and read there.
TEST(CostModel, MemoryThatIsNotPinnedGoesThroughARing) {
  constexpr double kPiece = 4 << 20;
  Priced tiny;
  tiny.machine.link.h2d = tiny.machine.link.d2h = {kPiece, 0, {}};
  tiny.machine.cpu.dram_bytes_per_second = 4 * 4 * kPiece;
  const int up = tiny.upload("up", TensorKind::weights, 64 << 20),
            down = tiny.download("down", TensorKind::gradient, 4);
  tiny.schedule.buffers[1].bytes = 1 << 30;
  tiny.machine.pinned_bytes = 1 << 30;
  EXPECT_EQ(tiny.cost(up).latency_seconds, 0);
  tiny.machine.pinned_bytes = 160 << 20;
  const OpCost cost = tiny.cost(up);
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 0.5 + 0.01);  // and what waking the ring's thread takes
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 16);
  EXPECT_DOUBLE_EQ(cost.demand[kLinkH2d], kPiece);
  EXPECT_DOUBLE_EQ(cost.demand[kDram], 3 * kPiece);
  EXPECT_DOUBLE_EQ(cost.demand[kHbm], kPiece);
  EXPECT_DOUBLE_EQ(cost.demand[kCores], 0.5);
  EXPECT_EQ(cost.launch_seconds, 0);
  EXPECT_DOUBLE_EQ(tiny.cost(down).demand[kLinkD2h] * tiny.cost(down).fluid_seconds, 4);
  // As measured, where it was.
  tiny.machine.link.ring_h2d.bytes_per_second = kPiece / 2;
  EXPECT_DOUBLE_EQ(tiny.cost(up).fluid_seconds, 32);
  // Each of four threads takes 2 s for a piece. One ends 1.5 s after an even share of the work; then the link moves its
  // piece.
  tiny.machine.cpu.cores = 16;
  EXPECT_DOUBLE_EQ(tiny.cost(up).latency_seconds, 1 + 3 * 0.5 + 0.01);
  // From its beginning to its end, where that was measured: 64 MiB lie half way between 16 MiB (at kPiece / 8 a second)
  // and 256 MiB (kPiece / 4). What its ends take stays as it is, up to half of it.
  tiny.machine.link.ring_h2d.curve = {{16 << 20, 32}, {256 << 20, 256}};
  EXPECT_DOUBLE_EQ(tiny.cost(up).fluid_seconds, 16 / 0.1875 - 2.5);
  EXPECT_DOUBLE_EQ(tiny.cost(up).latency_seconds, 2.5 + 0.01);
  EXPECT_EQ(tiny.cost(up).traffic, TrafficClass::none);
  EXPECT_GT(tiny.cost(up).demand[kCores], 0);
  tiny.machine.link.ring_h2d.curve = {{16 << 20, 1}};
  EXPECT_DOUBLE_EQ(tiny.cost(up).latency_seconds, 2 + 0.01);
  EXPECT_DOUBLE_EQ(tiny.cost(up).fluid_seconds, 2);
  // What it gets beside others goes by what was measured of that, in which the cores were short as they are.
  tiny.machine.cpu.sharing = {{0, true, true, 0, kPiece, kPiece, true}};
  EXPECT_EQ(tiny.cost(up).traffic, TrafficClass::ring_upload);
  EXPECT_EQ(tiny.cost(down).traffic, TrafficClass::ring_download);
  EXPECT_EQ(tiny.cost(up).demand[kCores], 0);
  // With 64 MiB more than rings and spare take, the beginning of the arena is pinned.
  tiny.machine.pinned_bytes = 256 << 20;
  EXPECT_EQ(tiny.cost(up).latency_seconds, 0);
  EXPECT_DOUBLE_EQ(tiny.cost(up).fluid_seconds, 16);
}

TEST(CostModel, NvmeNeedsADrive) {
  Priced tiny;
  const int read = tiny.copy("read", tiny.add_lane("nvme", LaneKind::nvme_read), 2, 1, TensorKind::moment_m);
  try {
    tiny.cost(read);
    FAIL() << "priced a read from no drive";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("round.toml: nvme.read"), std::string::npos) << error.what();
  }
  tiny.machine.nvme = {1 << 20, 4, 2, 0.25};
  const OpCost cost = tiny.cost(read);
  EXPECT_DOUBLE_EQ(cost.fluid_seconds, 1024);  // a whole block of 4096 bytes
  EXPECT_DOUBLE_EQ(cost.demand[kNvmeRead], 1);
  EXPECT_DOUBLE_EQ(cost.demand[kNvmeWrite], 0);
  EXPECT_DOUBLE_EQ(cost.demand[kDram], 8);  // with the checksums' pass
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 0.26);
}

TEST(Capacities, ADriveKeepsOfEachWayWhatWasMeasuredBesideTheOther) {
  Priced tiny;
  tiny.machine.nvme = {1 << 20, 4, 2, 0.25};
  EXPECT_EQ(machine_capacities(tiny.machine, 1).nvme_read_beside_writes, 1);  // nobody measured it
  tiny.machine.nvme.both_read_bytes_per_second = 3;
  tiny.machine.nvme.both_write_bytes_per_second = 1;
  const Capacities capacities = machine_capacities(tiny.machine, 1);
  EXPECT_DOUBLE_EQ(capacities.nvme_read_beside_writes, 0.75);
  EXPECT_DOUBLE_EQ(capacities.nvme_write_beside_reads, 0.5);
  // 3 s of reads and 1 of writes: 2 s at once, after which the writes are done and 1.5 of the reads left.
  EXPECT_DOUBLE_EQ(capacities.nvme_seconds(3, 1), 3.5);
  EXPECT_DOUBLE_EQ(capacities.nvme_seconds(3, 0), 3);
  // Both together are slower than by turns.
  tiny.machine.nvme.both_write_bytes_per_second = 0.1;
  EXPECT_DOUBLE_EQ(machine_capacities(tiny.machine, 1).nvme_seconds(3, 1), 4);
}

// A copy of three transfers has three in flight, half way between two and four of them.
TEST(DriveRate, AShortCopyHasFewerTransfersInFlight) {
  Nvme drive;
  drive.read_bytes_per_second = 100;
  drive.write_bytes_per_second = 80;
  EXPECT_EQ(drive_rate(drive, true, 8192), 100);  // nothing is known of transfers
  drive.transfer_bytes = 4096;
  drive.depth = 8;
  drive.points = {{4096, 2, 40, 30}, {4096, 4, 60, 50}, {4096, 8, 100, 80}, {8192, 2, 90, 70}};
  EXPECT_DOUBLE_EQ(drive_rate(drive, true, 3 * 4096), 50);
  EXPECT_DOUBLE_EQ(drive_rate(drive, false, 3 * 4096 - 100), 40);
  EXPECT_DOUBLE_EQ(drive_rate(drive, true, 4096), 20);  // from none at all
  EXPECT_DOUBLE_EQ(drive_rate(drive, true, 8 * 4096), 100);
  EXPECT_DOUBLE_EQ(drive_rate(drive, true, 1e9), 100);
}

// --- capacities

TEST(MachineCapacities, DuplexLimitsOnlyWhenBothDirectionsAreBusy) {
  const Capacities capacities = machine_capacities(round_machine(), 0);
  EXPECT_EQ(capacities.when(true, false, 0)[kLinkH2d], 10);
  EXPECT_EQ(capacities.when(true, true, 0)[kLinkH2d], 8);
  EXPECT_EQ(capacities.when(true, true, 0)[kLinkD2h], 5);  // no duplex figure: as alone
  EXPECT_EQ(capacities.when(false, false, 0)[kDram], 100);
  EXPECT_EQ(capacities.when(false, false, 0)[kCpuTraffic], kUnlimited);
}

/// A profile's figures, no two alike: each direction has its own, from the curve where that is above the headline, in
/// duplex, and beside CPU threads.
TEST(MachineCapacities, EachDirectionHasItsOwn) {
  Machine machine = round_machine();
  machine.link.h2d = {40, 0, {{1, 1}, {90, 2}}};   // 45 at the curve's end
  machine.link.d2h = {30, 0, {{1, 1}, {128, 4}}};  // 32
  machine.link.duplex_h2d_bytes_per_second = 28;
  machine.link.duplex_d2h_bytes_per_second = 22;
  machine.cpu.sharing = {{2, true, false, 60, 36, 0}, {2, false, true, 70, 0, 26}, {2, true, true, 50, 24, 18}};
  machine.nvme = {1000, 7, 3, 0};
  const Capacities capacities = machine_capacities(machine, 2);
  const auto expect = [&](bool up, bool down, int threads, double h2d, double d2h) {
    const ResourceVector& capacity = capacities.when(up, down, threads);
    EXPECT_DOUBLE_EQ(capacity[kLinkH2d], h2d) << up << down << threads;
    EXPECT_DOUBLE_EQ(capacity[kLinkD2h], d2h) << up << down << threads;
    EXPECT_EQ(capacity[kNvmeRead], 1);
    EXPECT_EQ(capacity[kNvmeWrite], 1);
  };
  expect(false, false, 0, 45, 32);
  expect(true, false, 0, 45, 32);
  expect(false, true, 0, 45, 32);
  expect(true, true, 0, 28, 22);
  expect(true, false, 2, 36, 32);
  expect(false, true, 2, 45, 26);
  expect(true, true, 2, 24, 18);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 2)[kCpuTraffic], 60);
  EXPECT_DOUBLE_EQ(capacities.when(false, true, 2)[kCpuTraffic], 70);
  EXPECT_DOUBLE_EQ(capacities.when(true, true, 2)[kCpuTraffic], 50);
}

// Measured beside uploads: 2 threads get 60 and leave 9 of 10, 4 threads get 80 and leave 7. Three threads are half
// way; one is half way from the link alone (10) and no CPU traffic (0).
TEST(MachineCapacities, MeasuredSharingIsLinearInThreads) {
  Machine machine = round_machine();
  machine.cpu.sharing = {{4, true, false, 80, 7, 0}, {2, true, false, 60, 9, 0}, {4, true, true, 50, 6, 60}};
  const Capacities capacities = machine_capacities(machine, 6);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 2)[kCpuTraffic], 60);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 3)[kCpuTraffic], 70);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 1)[kCpuTraffic], 30);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 6)[kCpuTraffic], 80);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 3)[kLinkH2d], 8);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 1)[kLinkH2d], 9.5);
  EXPECT_DOUBLE_EQ(capacities.when(true, false, 0)[kLinkH2d], 10);
  // Both: from duplex's 8 at no threads to 6 at four. The download's 60 is more than its link gives.
  EXPECT_DOUBLE_EQ(capacities.when(true, true, 2)[kLinkH2d], 7);
  EXPECT_DOUBLE_EQ(capacities.when(true, true, 4)[kLinkD2h], 5);
  // Downloads alone were not measured: nothing but the link.
  EXPECT_EQ(capacities.when(false, true, 4)[kCpuTraffic], kUnlimited);
  // All together drew 50 + 6 + 60 = 116, more than the 100 of the CPU alone.
  EXPECT_DOUBLE_EQ(capacities.when(false, false, 0)[kDram], 116);
  EXPECT_DOUBLE_EQ(capacities.largest()[kLinkH2d], 10);
}

// Rings alone give 8 up and 4 down of the link's 10 and 5; both 6 and 3; beside 2 threads less, and they leave the
// threads less than direct copies do.
TEST(MachineCapacities, CopiesThroughRingsHaveTheirOwn) {
  Machine machine = round_machine();
  machine.link.ring_h2d.bytes_per_second = 8;
  machine.link.ring_d2h.bytes_per_second = 4;
  machine.cpu.sharing = {{2, true, false, 60, 9, 0},         {2, true, true, 50, 7, 4},
                         {0, true, true, 0, 6, 3, true},     {2, true, false, 40, 2, 0, true},
                         {2, false, true, 45, 0, 1.5, true}, {2, true, true, 30, 1, 0.5, true}};
  const Capacities capacities = machine_capacities(machine, 2);
  using enum CopyWay;
  const auto expect = [&](CopyWay up, CopyWay down, int threads, double h2d, double d2h, double cpu) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(up) << static_cast<int>(down) << threads);
    const ResourceVector& capacity = capacities.when(up, down, threads);
    EXPECT_DOUBLE_EQ(capacity[kLinkH2d], h2d);
    EXPECT_DOUBLE_EQ(capacity[kLinkD2h], d2h);
    EXPECT_DOUBLE_EQ(capacity[kCpuTraffic], cpu);
  };
  expect(ring, none, 0, 8, 5, kUnlimited);
  expect(ring, ring, 0, 6, 3, kUnlimited);
  expect(ring, none, 1, 5, 5, 20);
  expect(ring, none, 2, 2, 5, 40);
  expect(none, ring, 2, 10, 1.5, 45);
  expect(ring, ring, 2, 1, 0.5, 30);
  // One way directly: it has what it had beside a direct copy, the ring what it has beside a ring.
  expect(ring, direct, 2, 1, 4, 30);
  expect(direct, ring, 2, 7, 0.5, 30);
  expect(direct, none, 2, 9, 5, 60);
  // DRAM saw 30 + 3 x 1.5 and 40 + 3 x 2 of them: less than the CPU alone.
  EXPECT_DOUBLE_EQ(capacities.when(none, none, 0)[kDram], 100);
  machine.cpu.sharing.push_back({2, true, true, 95, 6, 4, true});
  EXPECT_DOUBLE_EQ(machine_capacities(machine, 2).when(none, none, 0)[kDram], 95 + 30);
}

// --- bounds

// 1.5 s more for 5 s of kernels that slow down; the 5 s that only move bytes are no part of the mix.
TEST(MachineCapacities, TheSustainedSlowdownIsThatOfWhatSlowsDown) {
  std::vector<OpCost> costs(3);
  costs[0].fluid_seconds = 2, costs[0].sustained_extra_seconds = 1;
  costs[1].fluid_seconds = 3, costs[1].sustained_extra_seconds = 0.5;
  costs[2].fluid_seconds = 5;
  EXPECT_DOUBLE_EQ(sustained_slowdown(costs), 0.3);
  costs.erase(costs.begin(), costs.begin() + 2);
  EXPECT_EQ(sustained_slowdown(costs), 0);
}

// Uploads: (0.5 + 10) + (0.5 + 5) = 16 on the lane; their 150 bytes need 15 of the link; adam 520 on its lane.
TEST(Bounds, AreTheBusiestLaneOrResource) {
  Priced tiny;
  tiny.upload("one", TensorKind::weights, 100);
  tiny.upload("two", TensorKind::weights, 50);
  const Capacities capacities = machine_capacities(tiny.machine, 4);
  Bounds bounds = same_traffic_bound(tiny.schedule, op_costs(tiny.schedule, tiny.model, tiny.machine), capacities);
  EXPECT_DOUBLE_EQ(bounds.same_traffic_seconds, 16);
  EXPECT_EQ(bounds.binding, "lane h2d");
  tiny.op("adam", TinySchedule::kHost, OptimizerWork{1000, 2});
  bounds = same_traffic_bound(tiny.schedule, op_costs(tiny.schedule, tiny.model, tiny.machine), capacities);
  EXPECT_DOUBLE_EQ(bounds.same_traffic_seconds, 520.01);
  EXPECT_EQ(bounds.binding, "lane host");
  // Two lanes that each use DRAM's whole 100: 260 each, but 52 000 bytes in all.
  TinySchedule two;
  two.op("adam", TinySchedule::kHost, OptimizerWork{1000, 4});
  two.op("adam", two.add_lane("second", LaneKind::host), OptimizerWork{1000, 4});
  bounds = same_traffic_bound(two.schedule, op_costs(two.schedule, tiny.model, tiny.machine), capacities);
  EXPECT_DOUBLE_EQ(bounds.same_traffic_seconds, 520);
  EXPECT_EQ(bounds.binding, "dram");
}

}  // namespace
}  // namespace penstock::sim
