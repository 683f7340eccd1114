// Rates from small tables with round figures.
#include "sim/cost/rates.h"

#include <gtest/gtest.h>

#include "tests/shared/error_text.h"

namespace penstock::sim {
namespace {

Kernel matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool accumulates = false) {
  Kernel kernel;
  kernel.kind = KernelKind::matmul;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.accumulates = accumulates;
  kernel.flops = 2.0 * static_cast<double>(m * n * k);
  return kernel;
}

Gpu plain_gpu() {
  Gpu gpu;
  gpu.hbm_bytes_per_second = 1e12;
  gpu.matmul_flops_per_second = 1e9;
  gpu.attention_forward_efficiency = 0.5;
  gpu.attention_backward_efficiency = 0.25;
  gpu.elementwise_efficiency = 0.8;
  return gpu;
}

Gpu gpu_with_table() {
  Gpu gpu = plain_gpu();
  gpu.matmuls = {{1000, 10, 20, false, 1.0},
                 {4000, 10, 20, false, 3.4},
                 {1000, 10, 20, true, 1.5},
                 {30, 40, 100, true, 2.0},
                 {30, 40, 300, true, 4.0}};
  return gpu;
}

double burst(const Gpu& gpu, const Kernel& kernel) { return kernel_seconds(gpu, kernel).burst; }

// 2 x 100 x 50 x 1000 = 1e7 FLOPs at 1e9 per second.
TEST(Matmul, WithoutATableGoesByTheRate) { EXPECT_DOUBLE_EQ(burst(plain_gpu(), matmul(100, 50, 1000)), 0.01); }

// The same product, but 5e10 bytes at 1e12 per second: memory takes 0.05.
TEST(Matmul, IsNeverFasterThanItsBytes) {
  Kernel kernel = matmul(100, 50, 1000);
  kernel.bytes = 50'000'000'000;
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), kernel), 0.05);
}

TEST(Matmul, TakesTheTimeOfItsShape) {
  EXPECT_EQ(burst(gpu_with_table(), matmul(1000, 10, 20)), 1.0);
  EXPECT_EQ(burst(gpu_with_table(), matmul(1000, 10, 20, true)), 1.5);
}

// 2000 rows lie a third of the way from 1000 (1 s) to 4000 (3.4 s): 1 + 2.4 / 3.
TEST(Matmul, IsLinearInRowsBetweenPoints) { EXPECT_DOUBLE_EQ(burst(gpu_with_table(), matmul(2000, 10, 20)), 1.8); }

// A weight gradient grows with k, the tokens: 150 is a quarter of the way from 100 (2 s) to 300 (4 s).
TEST(Matmul, IsLinearInTokensForWeightGradients) {
  EXPECT_DOUBLE_EQ(burst(gpu_with_table(), matmul(30, 40, 150, true)), 2.5);
}

// Only one point of 1000 x 10 x 20 adds; 8000 rows lie beyond the others. Nearest is 4000 (3.4 s), twice the
// FLOPs: 6.8.
TEST(Matmul, BeyondThePointsScalesTheNearestByFlops) {
  EXPECT_DOUBLE_EQ(burst(gpu_with_table(), matmul(8000, 10, 20)), 6.8);
}

// The accumulating product has no second point along m, the plain one has: its line is better than scaling.
TEST(Matmul, PrefersALineOfTheOtherKindToScaling) {
  EXPECT_DOUBLE_EQ(burst(gpu_with_table(), matmul(2000, 10, 20, true)), 1.8);
}

// Burst 1.25 times the sustained rate: the table's 1 s becomes 1.25 s without a pause.
TEST(Matmul, SustainedTimesFollowTheRatioOfRates) {
  Gpu gpu = gpu_with_table();
  gpu.matmul_burst_flops_per_second = 1.25e9;
  const KernelSeconds seconds = kernel_seconds(gpu, matmul(1000, 10, 20));
  EXPECT_DOUBLE_EQ(seconds.burst, 1.0);
  EXPECT_DOUBLE_EQ(seconds.sustained, 1.25);
  gpu.matmuls.clear();
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, matmul(100, 50, 1000)).burst, 0.008);
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, matmul(100, 50, 1000)).sustained, 0.01);
}

// Two products of one shape: each has its own point, by name; one that is in no point takes the first of the shape.
// Gradients in bf16 and fp32 are apart by the bytes of their elements. Sustained times are the points' own.
TEST(Matmul, PointsOfOneShapeAreToldApartByNameAndResult) {
  Gpu gpu = plain_gpu();
  gpu.matmuls = {{8, 8, 8, false, 1.0, KernelId::attention_output, 2, 1.2},
                 {8, 8, 8, false, 2.0, KernelId::attention_output_input_gradient, 2, 2.6},
                 {8, 8, 8, true, 3.0, KernelId::down_weight_gradient, 2},
                 {8, 8, 8, true, 4.0, KernelId::down_weight_gradient, 4}};
  Kernel kernel = matmul(8, 8, 8);
  kernel.output_bytes = 2;
  kernel.id = KernelId::attention_output_input_gradient;
  EXPECT_EQ(kernel_seconds(gpu, kernel).burst, 2.0);
  EXPECT_EQ(kernel_seconds(gpu, kernel).sustained, 2.6);
  kernel.id = KernelId::attention_output;
  EXPECT_EQ(kernel_seconds(gpu, kernel).sustained, 1.2);
  kernel.id = KernelId::qkv;
  EXPECT_EQ(burst(gpu, kernel), 1.0);
  kernel.id = KernelId::down_weight_gradient;
  kernel.accumulates = true;
  EXPECT_EQ(burst(gpu, kernel), 3.0);
  kernel.output_bytes = 4;
  EXPECT_EQ(burst(gpu, kernel), 4.0);
}

// 5e10 bytes at 1e12 per second would take 0.05, but caches served what was measured at 0.01.
TEST(Matmul, WhatWasMeasuredIsNotHeldAgainstItsBytes) {
  Gpu gpu = plain_gpu();
  gpu.matmuls = {{100, 50, 1000, false, 0.01}};
  Kernel kernel = matmul(100, 50, 1000);
  kernel.bytes = 50'000'000'000;
  EXPECT_EQ(burst(gpu, kernel), 0.01);
}

// No point reaches the rate of 1e9: the best are 2 x 1000 x 10 x 20 in 1 s = 4e5. With a point of 2e9 it is that one,
// brought down by the power limit's 1.25.
TEST(Matmul, TheBestRateIsTheLargerOfHeadlineAndTable) {
  Gpu gpu = gpu_with_table();
  EXPECT_EQ(best_matmul_rate(gpu), 1e9);
  gpu.matmuls.push_back({1000, 1000, 1000, false, 1.0});
  EXPECT_DOUBLE_EQ(best_matmul_rate(gpu), 2e9);
  gpu.matmul_burst_flops_per_second = 1.25e9;
  EXPECT_DOUBLE_EQ(best_matmul_rate(gpu), 1.6e9);
}

Kernel attention(KernelKind kind, std::int64_t sequences, std::int64_t length, std::int64_t head_dim = 64) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.attention.sequences = sequences;
  kernel.attention.length = length;
  kernel.attention.heads = 8;
  kernel.attention.kv_heads = 2;
  kernel.attention.head_dim = head_dim;
  kernel.flops = 2.0 * static_cast<double>(sequences * 8 * head_dim * length * length);
  if (kind == KernelKind::attention_backward) kernel.flops *= 2.5;
  return kernel;
}

// 2 x 1 x 8 x 64 x 1000^2 = 1.024e9 FLOPs; forward at half the rate, backward 2.5 times as many at a quarter of it.
Kernel experts(std::int64_t groups, std::int64_t rows, double skew = 1) {
  Kernel kernel = matmul(rows, 768, 2048);
  kernel.groups = groups;
  kernel.skew = skew;
  return kernel;
}

// 128 experts of 1024 rows, whole tiles of 128 each, take one product's time and 2.75 us for each expert.
TEST(GroupedMatmul, IsOneProductOfWholeTilesAndATimeForEachExpert) {
  const double together = burst(plain_gpu(), matmul(131072, 768, 2048));
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), experts(128, 131072)), together + 128 * 2.75e-6);
  // 1025 rows each fill nine tiles.
  EXPECT_NEAR(burst(plain_gpu(), experts(128, 128 * 1025)),
              burst(plain_gpu(), matmul(128 * 1152, 768, 2048)) + 128 * 2.75e-6, 1e-12);
  // All rows to one expert: no other has a product.
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), experts(128, 131072, 128)), together + 2.75e-6);
  Kernel weights = matmul(768, 2048, 131072);
  weights.groups = 128;
  weights.groups_share_k = true;
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), weights), together + 128 * 2.75e-6);
}

TEST(GroupedMatmul, TakesPointsOfAsManyExpertsAlone) {
  Gpu gpu = plain_gpu();
  gpu.matmuls = {{131072, 768, 2048, false, 2.0}};
  EXPECT_DOUBLE_EQ(burst(gpu, experts(128, 131072)), 2.0 + 128 * 2.75e-6);
  MatmulPoint point{131072, 768, 2048, false, 3.0};
  point.groups = 128;
  gpu.matmuls.push_back(point);
  EXPECT_DOUBLE_EQ(burst(gpu, experts(128, 131072)), 3.0);
  EXPECT_DOUBLE_EQ(burst(gpu, matmul(131072, 768, 2048)), 2.0);
  EXPECT_DOUBLE_EQ(burst(gpu, experts(64, 131072)), 2.0 + 64 * 2.75e-6);
}

TEST(Attention, WithoutATableGoesByItsEfficiency) {
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), attention(KernelKind::attention_forward, 1, 1000)), 2.048);
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), attention(KernelKind::attention_backward, 1, 1000)), 10.24);
}

// Twice the sequences of the point of equal length, not the point of twice the length, and never another head_dim.
TEST(Attention, ScalesThePointOfItsLength) {
  Gpu gpu = plain_gpu();
  gpu.attentions = {{4, 1000, 8, 2, 64, 1.0, 3.0}, {8, 2000, 8, 2, 64, 7.0, 20.0}, {8, 1000, 8, 2, 128, 100, 100}};
  EXPECT_DOUBLE_EQ(burst(gpu, attention(KernelKind::attention_forward, 4, 1000)), 1.0);
  EXPECT_DOUBLE_EQ(burst(gpu, attention(KernelKind::attention_forward, 8, 1000)), 2.0);
  EXPECT_DOUBLE_EQ(burst(gpu, attention(KernelKind::attention_backward, 8, 1000)), 6.0);
}

TEST(Attention, HasSustainedTimesWhereTheyWereMeasured) {
  Gpu gpu = plain_gpu();
  gpu.attentions = {{4, 1000, 8, 2, 64, 1.0, 3.0, 1.5, 0}};
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, attention(KernelKind::attention_forward, 8, 1000)).sustained, 3.0);
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, attention(KernelKind::attention_backward, 4, 1000)).sustained, 3.0);
}

Kernel elementwise(const char* name, std::int64_t bytes) {
  Kernel kernel;
  kernel.id = find_kernel(name);
  kernel.bytes = bytes;
  return kernel;
}

TEST(Elementwise, GoesByNameThenByAnyNameThenByBandwidth) {
  Gpu gpu = plain_gpu();
  EXPECT_DOUBLE_EQ(burst(gpu, elementwise("swiglu", 8'000'000)), 1e-5);  // 8e6 / (1e12 x 0.8)
  gpu.elementwise = {{std::nullopt, 1000, 5}, {KernelId::swiglu, 1000, 2}, {KernelId::swiglu, 3000, 4}};
  EXPECT_EQ(burst(gpu, elementwise("input norm", 1000)), 5);
  EXPECT_EQ(burst(gpu, elementwise("swiglu", 1000)), 2);
  EXPECT_DOUBLE_EQ(burst(gpu, elementwise("swiglu", 2000)), 3);  // half way
  EXPECT_DOUBLE_EQ(burst(gpu, elementwise("swiglu", 6000)), 8);  // as many bytes per second as the last point
  EXPECT_DOUBLE_EQ(burst(gpu, elementwise("swiglu", 500)), 1);
}

// Half way between 2 and 4 in a burst, between 3 and 4 without a pause (the second point has no time of its own).
TEST(Elementwise, SustainedTimesLieBetweenThePointsToo) {
  Gpu gpu = plain_gpu();
  gpu.elementwise = {{KernelId::swiglu, 1000, 2, 3}, {KernelId::swiglu, 3000, 4}};
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, elementwise("swiglu", 2000)).burst, 3);
  EXPECT_DOUBLE_EQ(kernel_seconds(gpu, elementwise("swiglu", 2000)).sustained, 3.5);
}

TEST(Copy, WithoutACurveIsLatencyAndBandwidth) {
  const LinkDirection direction{10, 0.5, {}};
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 100), 10.5);
  const Burst bursts[] = {{25, 3}, {10, 1}};
  EXPECT_DOUBLE_EQ(copy_seconds(direction, bursts), 3 * 3.0 + 1.5);
}

// Points: 16 bytes at 8 per second, 64 at 16. 32 bytes are half way on the logarithm: 12 per second. Shorter ones take
// as long as the shortest measured, longer ones run at the rate of the longest.
TEST(Copy, CurveIsLinearInTheLogarithmOfTheSize) {
  const LinkDirection direction{16, 0, {{16, 2}, {64, 4}}};
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 16), 2);
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 32), 32.0 / 12);
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 64), 4);
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 128), 8);
  EXPECT_DOUBLE_EQ(transfer_seconds(direction, 1), 2);
  EXPECT_EQ(transfer_seconds(direction, 0), 0);
}

TEST(Threads, RatesAreLinearBetweenPoints) {
  const ThreadRate table[] = {{4, 40}, {8, 60}};
  EXPECT_DOUBLE_EQ(rate_of_threads(table, 1), 10);
  EXPECT_DOUBLE_EQ(rate_of_threads(table, 4), 40);
  EXPECT_DOUBLE_EQ(rate_of_threads(table, 6), 50);
  EXPECT_DOUBLE_EQ(rate_of_threads(table, 16), 60);
  Cpu cpu;
  cpu.cores = 8;
  cpu.dram_bytes_per_second = 80;
  EXPECT_DOUBLE_EQ(dram_rate(cpu, 2), 20);
  EXPECT_DOUBLE_EQ(dram_rate(cpu, 100), 80);
}

TEST(Optimizer, BytesPerParameterFollowTheFormat) {
  Numerics numerics;
  EXPECT_EQ(optimizer_bytes_per_parameter(numerics), 26);  // hi 4, lo 4, m 8, v 8, gradient 2
  numerics.gradient_link = ElementType::fp32;
  EXPECT_EQ(optimizer_bytes_per_parameter(numerics), 28);
  numerics.gradient_link = ElementType::bf16;
  numerics.moments = ElementType::bf16;
  EXPECT_EQ(optimizer_bytes_per_parameter(numerics), 18);  // m and v 4 each
  numerics.moments = ElementType::fp32;
  numerics.states = StateFormat::bf16;
  EXPECT_EQ(optimizer_bytes_per_parameter(numerics), 22);  // as measured for DeepSpeed's CPUAdam without a master
  numerics.states = StateFormat::master_and_copy;
  EXPECT_EQ(optimizer_bytes_per_parameter(numerics), 28);  // master 8, copy written 2, m 8, v 8, gradient 2
}

// The table is of 26 bytes: 22 per second of those are 26 of 22 bytes each. Without a table DRAM decides: 52 / 26.
TEST(Optimizer, OtherFormatsGoByTheirTraffic) {
  Cpu cpu;
  cpu.cores = 4;
  cpu.dram_bytes_per_second = 52;
  Numerics numerics;
  EXPECT_DOUBLE_EQ(adamw_cost(cpu, numerics, 4).seconds_per_byte, 1.0 / 52);
  cpu.adamw_by_threads = {{4, 22}};
  EXPECT_DOUBLE_EQ(adamw_cost(cpu, numerics, 4).seconds_per_byte, 1.0 / (22 * 26));
  numerics.states = StateFormat::bf16;
  EXPECT_DOUBLE_EQ(adamw_cost(cpu, numerics, 4).seconds_per_byte, 1.0 / (22 * 26));
  EXPECT_EQ(adamw_cost(cpu, numerics, 4).fixed_seconds, 0);
}

// 2 s for 100 bytes and 8 s for 700: a hundredth of a second per byte, and one that any pass takes.
TEST(HostPasses, TimesLieOnTheLineThroughTheirPoints) {
  Cpu cpu;
  cpu.dram_by_threads = {{2, 10}, {4, 20}};
  cpu.passes = {{"sum", 4, 100, 2}, {"sum", 4, 700, 8}, {"scan", 4, 100, 2}, {"adamw bf16 fp32 bf16", 4, 1000, 5}};
  const HostPassCost sum = host_pass_cost(cpu, "sum", 4);
  EXPECT_DOUBLE_EQ(sum.seconds_per_byte, 0.01);
  EXPECT_DOUBLE_EQ(sum.fixed_seconds, 1);
  const HostPassCost scan = host_pass_cost(cpu, "scan", 4);  // one point: proportional
  EXPECT_DOUBLE_EQ(scan.seconds_per_byte, 0.02);
  EXPECT_EQ(scan.fixed_seconds, 0);
  EXPECT_DOUBLE_EQ(host_pass_cost(cpu, "sum", 2).seconds_per_byte, 0.02);    // half of DRAM's rate
  EXPECT_DOUBLE_EQ(host_pass_cost(cpu, "other", 4).seconds_per_byte, 0.05);  // DRAM's
  EXPECT_DOUBLE_EQ(best_host_rate(cpu, 4), 200);                             // of the bf16 states
  Numerics numerics;
  numerics.states = StateFormat::bf16;
  cpu.adamw_by_threads = {{4, 1}};  // the pass that was measured in this format counts
  EXPECT_DOUBLE_EQ(adamw_cost(cpu, numerics, 4).seconds_per_byte, 0.005);
}

// Noise: a small pass that seems slower per byte than it can be must not make large ones free, nor take less than none.
TEST(HostPasses, NoFixedPartIsNegative) {
  Cpu cpu;
  cpu.passes = {{"sum", 4, 100, 0.5}, {"sum", 4, 700, 7}};
  const HostPassCost sum = host_pass_cost(cpu, "sum", 4);
  EXPECT_DOUBLE_EQ(sum.seconds_per_byte, 0.01);
  EXPECT_EQ(sum.fixed_seconds, 0);
}

// Two head dimensions at 4 and 8 GFLOP/s forward; a sequence as long as the half length runs at half the rate.
TEST(Attention, GoesByHeadDimensionLengthAndWhetherItIsDeterministic) {
  Gpu gpu = plain_gpu();
  gpu.attention.by_head_dim = {{64, 4e9, 2e9, 1e9}, {128, 8e9, 5e9, 2.5e9}};
  gpu.attention.half_length = 100;
  gpu.attention.backward_half_length = 300;
  Kernel kernel;
  kernel.kind = KernelKind::attention_forward;
  kernel.attention.head_dim = 64;
  kernel.attention.length = 100;
  kernel.flops = 1e9;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 0.5);  // 1 GFLOP at half of 4
  kernel.attention.head_dim = 96;             // nearer to 128 by ratio
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 0.25);
  kernel.kind = KernelKind::attention_backward;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 1.6);  // a quarter of 2.5
  gpu.deterministic = false;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 0.8);
}

/// `length` queries behind `past` keys; 8 heads of 64.
Kernel chunk_attention(std::int64_t length, std::int64_t past) {
  Kernel kernel = attention(KernelKind::attention_forward, 1, length);
  kernel.id = KernelId::chunk_attention;
  kernel.attention.is_chunk = true;
  kernel.attention.past = past;
  kernel.flops = kernel.attention.forward_flops();
  return kernel;
}

// The second chunk of 300: 300^2 + 2 x 300 x 300 in the place of the square. Half a tile more behind each query.
TEST(ChunkAttention, GrowsWithThePast) {
  EXPECT_DOUBLE_EQ(chunk_attention(300, 300).flops, 2.0 * 8 * 64 * 270'000);
  const double tiles = 2.0 * 8 * 64 * 300 * 64;
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), chunk_attention(300, 300)), (2.0 * 8 * 64 * 270'000 + tiles) / 0.2e9);
  // What the library takes runs at its rate.
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), chunk_attention(320, 640)), 2.0 * 8 * 64 * 512'000 / 0.5e9);
}

TEST(ChunkAttention, LiesBetweenThePointsOfItsChunk) {
  Gpu gpu = plain_gpu();
  AttentionPoint first{1, 320, 8, 2, 64, 1.0, 3.0}, last = first;
  first.past = 0;
  last.past = 640;
  last.forward_seconds = 5.0;
  gpu.attentions = {{1, 320, 8, 2, 64, 100.0, 300.0}, first, last};
  EXPECT_DOUBLE_EQ(burst(gpu, chunk_attention(320, 160)), 2.0);
  EXPECT_DOUBLE_EQ(burst(gpu, chunk_attention(320, 640)), 5.0);
  // Beyond them by FLOPs: 320 x (320 + 2 x 960) against 320 x (320 + 2 x 640).
  EXPECT_DOUBLE_EQ(burst(gpu, chunk_attention(320, 960)), 5.0 * 2240 / 1600);
  // Chunks that nobody timed go by whole sequences.
  gpu.attentions = {{1, 320, 8, 2, 64, 1.0, 3.0}};
  EXPECT_DOUBLE_EQ(burst(gpu, chunk_attention(320, 320)), 3.0);
}

// 4 queries per key: 2 x 4 x 16,384^2 bytes of workspace are within the budget, 2 x 4 x 32,768^2 are not. A chunk of
// 32,768 is for our own kernel then, of which a point of the library's tells by its share: 4 times the squares and, with
// half a tile behind each query, 32,768 (32,768 + 64) against 16,384 (16,384 + 64).
TEST(ChunkAttention, PointsOfTheOtherKernelTellByItsShare) {
  Gpu gpu = plain_gpu();
  AttentionPoint library{1, 16384, 8, 2, 64, 1.0, 3.0};
  library.past = 0;
  gpu.attentions = {library};
  Kernel kernel = chunk_attention(32768, 0);
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 4.0);  // forward has no such limit
  kernel.kind = KernelKind::attention_backward;
  kernel.flops *= kAttentionBackwardFlops;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 3.0 * (2.0 * 32832) / 16448 / 0.4);
  gpu.deterministic = false;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 12.0);
  // A point of its own kernel comes first, however far it is: here chunks that are no multiple of 64.
  gpu.deterministic = true;
  AttentionPoint own{1, 1000, 8, 2, 64, 1.0, 2.0};
  own.past = 0;
  gpu.attentions.push_back(own);
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 2.0 * (32768.0 * 32832) / (1000.0 * 1064));
}

/// Rows of 1000 whose documents' squared lengths add up to 100,000: a tenth of the square.
Kernel packed_attention(KernelKind kind, std::int64_t sequences) {
  Kernel kernel = attention(kind, sequences, 1000);
  kernel.id = kind == KernelKind::attention_forward ? KernelId::packed_attention : KernelId::packed_attention_backward;
  kernel.attention.rows = BatchKind::packed;
  kernel.attention.squared_lengths = 1e5;
  return kernel;
}

// Beside 2 x 8 x 64 x 1e5 = 1.024e8 FLOPs a row, 4 x 8 x 64 x 1000 x 64 = 1.31072e8 of tiles; at 0.4 of half of 1e9.
TEST(PackedAttention, WithoutATableRunsAtAShareOfTheRate) {
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), packed_attention(KernelKind::attention_forward, 1)), 0.233472 / 0.2);
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), packed_attention(KernelKind::attention_backward, 1)), 2.5 * 0.233472 / 0.1);
  Gpu host = plain_gpu();
  host.is_host = true;  // whose kernel is the same for all rows
  EXPECT_DOUBLE_EQ(burst(host, packed_attention(KernelKind::attention_forward, 1)), 0.233472 / 0.5);
}

// A point of rows with squares of 200,000: 2.048e8 and the same tiles.
TEST(PackedAttention, ScalesPointsOfPackedRowsAlone) {
  Gpu gpu = plain_gpu();
  gpu.attentions = {{4, 1000, 8, 2, 64, 1.0, 3.0}, {4, 1000, 8, 2, 64, 0.5, 2.0, 0, 0, 2e5}};
  EXPECT_DOUBLE_EQ(burst(gpu, packed_attention(KernelKind::attention_forward, 8)),
                   0.5 * 2 * 0.233472 / (0.2048 + 0.131072));
  EXPECT_DOUBLE_EQ(burst(gpu, packed_attention(KernelKind::attention_backward, 4)),
                   2.0 * 0.233472 / (0.2048 + 0.131072));
  EXPECT_DOUBLE_EQ(burst(gpu, attention(KernelKind::attention_forward, 4, 1000)), 1.0);
  gpu.attentions.pop_back();
  EXPECT_MENTIONS(error_text([&] { burst(gpu, packed_attention(KernelKind::attention_backward, 4)); }),
                  "nobody has timed the kernel \"packed attention backward\"");
}

// Of sequences of 1000 a window of 100 leaves 1000^2 - 900^2 = 190,000 squares: 1.9456e8 FLOPs and the same tiles.
TEST(WindowedAttention, RunsAsPackedRowsDo) {
  Kernel kernel = attention(KernelKind::attention_forward, 1, 1000);
  kernel.attention.window = 100;
  EXPECT_DOUBLE_EQ(burst(plain_gpu(), kernel), (0.19456 + 0.131072) / 0.2);
  Gpu gpu = plain_gpu();
  gpu.attentions = {{1, 1000, 8, 2, 64, 1.0, 3.0}};
  EXPECT_MENTIONS(error_text([&] { burst(gpu, kernel); }), "calibrate with a scenario that has such windows");
  gpu.attentions.push_back({1, 1000, 8, 2, 64, 0.25, 0.5, 0, 0, 0, -1, 100});
  gpu.attentions.push_back({1, 1000, 8, 2, 64, 0.75, 0.5, 0, 0, 0, -1, 500});
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 0.25);
  EXPECT_DOUBLE_EQ(burst(gpu, attention(KernelKind::attention_forward, 1, 1000)), 1.0);
}

// 1e7 FLOPs at 1e9 per second, and 2 ms to fill and drain; 4e6 bytes at 0.8e12 per second likewise.
TEST(Fill, IsPaidByEveryKernelWithoutATable) {
  Gpu gpu = plain_gpu();
  gpu.fill_seconds = 0.002;
  EXPECT_DOUBLE_EQ(burst(gpu, matmul(100, 50, 1000)), 0.012);
  Kernel kernel;
  kernel.kind = KernelKind::elementwise;
  kernel.bytes = 4'000'000;
  EXPECT_DOUBLE_EQ(burst(gpu, kernel), 0.002 + 5e-6);
  gpu.matmuls = {{100, 50, 1000, false, 0.01}};
  EXPECT_DOUBLE_EQ(burst(gpu, matmul(100, 50, 1000)), 0.01);
}

}  // namespace
}  // namespace penstock::sim
