#include "exec/calibrate/calibration_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/shared/policy/small_models.h"

namespace penstock::exec {
namespace {

constexpr KernelId kA = KernelId::qkv, kB = KernelId::down, kC = KernelId::logits;
constexpr ElementType kBothGradients[] = {ElementType::fp32, ElementType::bf16};

Scenario small_scenario(const Model& model) {
  Scenario scenario;
  scenario.model = model;
  scenario.sequence_length = 32;
  scenario.sequences = 4;
  scenario.micro_batch = 2;
  scenario.policy = preset_parameters("penstock");
  return scenario;
}

/// Tables with a second for every kernel that the ops execute.
KernelTables tables_of(const Scenario& scenario) {
  KernelTables tables;
  for (const CalibrationOp& op : calibration_ops(scenario, kBothGradients))
    for (const Kernel& kernel : op.kernels) tables.add_burst({kernel, 1.0});
  return tables;
}

/// Whatever a schedule keeps, recomputes and adds up, in whichever type: no kernel is left to guesses. 64 tokens in MLP
/// chunks of 24 and loss chunks of 20 leave remainders of 16 and 4.
TEST(CalibrationOps, CoverEveryKernelThatASchedulesOpsCanHave) {
  for (const Model& model : {small::llama(), small::qwen2_tied(), small::qwen3()})
    for (const Chunking& chunking : {Chunking{}, Chunking{24, 20}}) {
      Scenario scenario = small_scenario(model);
      scenario.policy.numerics.chunking = chunking;
      const KernelTables tables = tables_of(scenario);
      for (const LayerKind kind : {LayerKind::embedding, LayerKind::decoder, LayerKind::head})
        for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward, Pass::loss}) {
          const bool decoder = kind == LayerKind::decoder, head = kind == LayerKind::head;
          if (head != (pass == Pass::loss) || (pass == Pass::recompute && !decoder)) continue;
          for (const Keep keep : kKeeps)
            for (const bool writes_output : {false, true})
              for (const bool accumulates : {false, true})
                for (const std::int64_t gradient_bytes : {2, 4})
                  for (const Kernel& kernel : template_kernels(model, kind, pass, {2, 32}, {keep, chunking, 0},
                                                               writes_output, accumulates, gradient_bytes))
                    EXPECT_TRUE(tables.has(kernel)) << kernel.name();
        }
    }
}

/// A sequence of 40 in chunks of 12: the first, and the third, which is the last whole one; kernels but attention are
/// those of either.
TEST(CalibrationOps, OfChunksAreOfTheFirstAndTheLastWholeOne) {
  Scenario scenario = small_scenario(small::llama());
  scenario.sequence_length = 40;
  scenario.micro_batch = 1;
  scenario.chunk_tokens = 12;
  const std::vector<BatchShape> shapes = calibration_shapes(scenario);
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].past, 0);
  EXPECT_EQ(shapes[1].past, 24);
  EXPECT_EQ(shapes[1].sequence_length, 12);
  KernelTables tables = tables_of(scenario);
  tables.require_all(scenario);
  Gpu gpu;
  gpu.hbm_bytes_per_second = 1e12;
  std::map<std::string, double> spread;
  tables.fill(gpu, spread);
  ASSERT_EQ(gpu.attentions.size(), 2u);
  std::vector<std::int64_t> pasts{gpu.attentions[0].past, gpu.attentions[1].past};
  std::sort(pasts.begin(), pasts.end());
  EXPECT_EQ(pasts, (std::vector<std::int64_t>{0, 24}));
  for (const AttentionPoint& point : gpu.attentions) {
    EXPECT_EQ(point.forward_seconds, 1);
    EXPECT_EQ(point.backward_seconds, 1);
  }
}

TEST(CalibrationOps, CoverEveryWindowOfTheLayers) {
  ModelConfig config = small::llama().config;
  config.sliding_window = 7;
  config.window_layers = {0};
  const Scenario scenario = small_scenario(make_model(config));
  const KernelTables tables = tables_of(scenario);
  EXPECT_NO_THROW(tables.require_all(scenario));
  Gpu gpu;
  std::map<std::string, double> spread;
  tables.fill(gpu, spread);
  std::set<std::int64_t> windows;
  for (const AttentionPoint& point : gpu.attentions) windows.insert(point.window);
  EXPECT_EQ(windows, (std::set<std::int64_t>{0, 7}));
}

Kernel product(KernelId id, std::int64_t m, bool accumulates, std::int64_t count = 1) {
  Kernel kernel;
  kernel.kind = KernelKind::matmul;
  kernel.id = id;
  kernel.m = m;
  kernel.n = kernel.k = 10;
  kernel.flops = 200.0 * static_cast<double>(m);
  kernel.accumulates = accumulates;
  kernel.output_bytes = 4;
  kernel.count = count;
  return kernel;
}

// Executed in the order a b a b a b: the marks of a name go to its chunks in turn. First and last chunk differ.
TEST(KernelTimes, GoToTheChunksInTurn) {
  const std::vector<Kernel> listed = {product(kA, 8, false), product(kA, 8, true), product(kA, 4, true),
                                      product(kB, 8, false, 2), product(kB, 4, false)};
  const std::vector<KernelMark> marks = {{kA, 1}, {kB, 2}, {kA, 3}, {kB, 4}, {kA, 5}, {kB, 6}};
  const std::vector<KernelTime> times = kernel_times(listed, marks);
  ASSERT_EQ(times.size(), 6u);
  EXPECT_FALSE(times[0].kernel.accumulates);
  EXPECT_TRUE(times[2].kernel.accumulates);
  EXPECT_EQ(times[2].kernel.m, 8);
  EXPECT_EQ(times[4].kernel.m, 4);
  EXPECT_EQ(times[3].kernel.m, 8);
  EXPECT_EQ(times[3].kernel.count, 1);
  EXPECT_EQ(times[5].kernel.m, 4);
  EXPECT_EQ(times[5].seconds, 6);
}

/// Whoever calibrates learns which kernel it was.
TEST(KernelTables, NamesTheKernelThatNobodyTimed) {
  const Scenario scenario = small_scenario(small::qwen3());
  KernelTables tables;
  for (const CalibrationOp& op : calibration_ops(scenario, kBothGradients))
    for (const Kernel& kernel : op.kernels)
      if (kernel.id != KernelId::swiglu_backward) tables.add_burst({kernel, 1.0});
  try {
    tables.require_all(scenario);
    ADD_FAILURE() << "the backward pass of the MLP has no time";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("\"swiglu backward\""), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(tables_of(scenario).require_all(scenario));
}

TEST(KernelTimes, RefusesOtherKernelsThanListed) {
  const std::vector<Kernel> listed = {product(kA, 8, false, 2)};
  EXPECT_THROW(kernel_times(listed, std::vector<KernelMark>{{kA, 1}}), std::logic_error);
  EXPECT_THROW(kernel_times(listed, std::vector<KernelMark>{{kA, 1}, {kA, 1}, {kA, 1}}), std::logic_error);
  EXPECT_THROW(kernel_times(listed, std::vector<KernelMark>{{kA, 1}, {kC, 1}}), std::logic_error);
}

// 10 + 20 + 30 us with marks, 54 without: 2 us per mark. Of 100 us too much only 5 us each can be the marks'.
TEST(TakeOffMarks, SharesTheDifferenceAmongTheMarks) {
  std::vector<KernelMark> marks = {{kA, 10e-6}, {kB, 20e-6}, {kC, 30e-6}};
  take_off_marks(marks, 54e-6);
  EXPECT_DOUBLE_EQ(marks[0].seconds, 8e-6);
  EXPECT_DOUBLE_EQ(marks[2].seconds, 28e-6);
  take_off_marks(marks, 100e-6);  // noise: marks do not make an op faster
  EXPECT_DOUBLE_EQ(marks[0].seconds, 8e-6);
  std::vector<KernelMark> slow = {{kA, 100e-6}, {kB, 4e-6}};
  take_off_marks(slow, 4e-6);
  EXPECT_DOUBLE_EQ(slow[0].seconds, 95e-6);
  EXPECT_DOUBLE_EQ(slow[1].seconds, 1e-6);  // never below a quarter
}

// a: 200 x 8 FLOPs; medians 2 s in a burst, 4 s without a pause: 800 and 400 FLOP/s.
TEST(KernelTables, HoldMediansInBurstsAndWithoutAPause) {
  KernelTables tables;
  for (const double seconds : {2.0, 1.0, 9.0}) tables.add_burst({product(kA, 8, true), seconds});
  for (const double seconds : {4.0, 3.0, 5.0}) tables.add_sustained({product(kA, 8, true), seconds});
  tables.add_burst({product(kB, 8, true), 3.0});
  Kernel forward;
  forward.kind = KernelKind::attention_forward;
  forward.id = KernelId::attention;
  forward.attention.sequences = 2;
  forward.attention.length = 32;
  forward.attention.heads = 4;
  forward.attention.kv_heads = 2;
  forward.attention.head_dim = 16;
  Kernel backward = forward;
  backward.kind = KernelKind::attention_backward;
  backward.id = KernelId::attention_backward;
  tables.add_burst({forward, 1.0});
  tables.add_sustained({forward, 1.25});
  tables.add_burst({backward, 3.0});
  Gpu gpu;
  gpu.hbm_bytes_per_second = 1e12;
  std::map<std::string, double> spread;
  tables.fill(gpu, spread);
  ASSERT_EQ(gpu.matmuls.size(), 2u);
  EXPECT_EQ(gpu.matmuls[0].kernel, kA);
  EXPECT_EQ(gpu.matmuls[0].seconds, 2.0);
  EXPECT_EQ(gpu.matmuls[0].sustained_seconds, 4.0);
  EXPECT_EQ(gpu.matmuls[0].output_bytes, 4);
  EXPECT_EQ(gpu.matmuls[1].sustained_seconds, 0);
  EXPECT_EQ(gpu.matmul_burst_flops_per_second, 800);
  EXPECT_DOUBLE_EQ(gpu.matmul_flops_per_second, 1600.0 / 3);  // b's, of which only a burst is known
  ASSERT_EQ(gpu.attentions.size(), 1u);
  EXPECT_EQ(gpu.attentions[0].forward_seconds, 1.0);
  EXPECT_EQ(gpu.attentions[0].forward_sustained_seconds, 1.25);
  EXPECT_EQ(gpu.attentions[0].backward_seconds, 3.0);
  EXPECT_GT(spread.at("qkv"), 0);
}

}  // namespace
}  // namespace penstock::exec
