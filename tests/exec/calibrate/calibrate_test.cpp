#include "exec/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/calibrate/calibration_ops.h"
#include "exec/calibrate/host_machine.h"
#include "exec/calibrate/stopwatch.h"
#include "shared/ir/host_pass_names.h"
#include "shared/model/kernels.h"
#include "shared/scenario/workload_data.h"
#include "tests/shared/data/token_file_bytes.h"
#include "tests/shared/policy/small_models.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

Scenario tiny(const Model& model) {
  Scenario scenario;
  scenario.name = "tiny";
  scenario.model = model;
  scenario.sequence_length = 32;
  scenario.sequences = 4;
  scenario.micro_batch = 2;
  scenario.policy = preset_parameters("penstock");
  scenario.machine.gpu.name = "CPU as GPU";
  scenario.machine.gpu.hbm_bytes = std::int64_t{1} << 30;
  scenario.machine.dram_bytes = std::int64_t{1} << 30;
  scenario.run.link_h2d_bytes_per_second = 200e6;
  scenario.run.link_d2h_bytes_per_second = 100e6;
  return scenario;
}

TEST(Summarise, MedianAndSpreadOfTheMiddleHalf) {
  // Sorted 1 2 3 4 100: median 3, quartiles 2 and 4; the outlier does not count.
  const Measured odd = summarise({100, 3, 1, 4, 2});
  EXPECT_EQ(odd.seconds, 3);
  EXPECT_DOUBLE_EQ(odd.spread, 2.0 / 3);
  EXPECT_EQ(summarise({4, 2}).seconds, 3);
}

TEST(Measure, RepeatsUntilOftenAndLongEnough) {
  int calls = 0;
  // One call to warm up, then 10 ms each: 5 are enough for 50 ms.
  const Measured measured =
      measure([&] { return ++calls, 0.01; }, {.least = 3, .most = 100, .enough_seconds = 0.045, .limit_seconds = 1});
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(measured.seconds, 0.01);
  calls = 0;
  measure([&] { return ++calls, 10.0; }, {.least = 5, .most = 100, .enough_seconds = 0.045, .limit_seconds = 1});
  EXPECT_EQ(calls, 2);  // longer than the limit: once is all
}

TEST(HostMachine, ThrottledCopiesTakeNoLessThanTheThrottleAllows) {
  EXPECT_GE(measure_copy(1 << 20, 100e6).seconds, (1 << 20) / 100e6);
}

/// Every kernel that the templates execute is in the tables, by shape or by name: nothing is left to guesses.
TEST(CalibrateHost, CoversEveryKernelOfTheModel) {
  for (const Model& model : {small::qwen2_tied(), small::qwen3()}) {
    const Scenario scenario = tiny(model);
    double last = 0;
    const Profile profile = calibrate_host(scenario, [&](const std::string&, double share) { last = share; });
    EXPECT_GT(last, 0.9);
    const Gpu& gpu = profile.machine.gpu;
    std::set<std::optional<KernelId>> kernels;
    for (const ElementwisePoint& point : gpu.elementwise) kernels.insert(point.kernel);
    const auto has_shape = [&](const Kernel& k) {
      return std::any_of(gpu.matmuls.begin(), gpu.matmuls.end(), [&](const MatmulPoint& p) {
        return p.kernel == k.id && p.m == k.m && p.n == k.n && p.k == k.k && p.accumulates == k.accumulates;
      });
    };
    const BatchShape batch{2, 32};
    for (const auto& [kind, pass] : std::vector<std::pair<LayerKind, Pass>>{{LayerKind::embedding, Pass::forward},
                                                                            {LayerKind::embedding, Pass::backward},
                                                                            {LayerKind::decoder, Pass::forward},
                                                                            {LayerKind::decoder, Pass::recompute},
                                                                            {LayerKind::decoder, Pass::backward},
                                                                            {LayerKind::head, Pass::loss}})
      for (const bool accumulates : {false, true})
        for (const Kernel& kernel :
             template_kernels(model, kind, pass, batch, {Keep::input, {}, 0}, false, accumulates)) {
          const bool found = kernel.kind == KernelKind::elementwise ? kernels.contains(kernel.id)
                             : kernel.kind == KernelKind::matmul    ? has_shape(kernel)
                                                                    : true;
          EXPECT_TRUE(found) << kernel.name();
        }
    ASSERT_EQ(gpu.attentions.size(), 1u);
    EXPECT_GT(gpu.attentions[0].forward_seconds, 0);
    EXPECT_GT(gpu.attentions[0].backward_seconds, 0);
    EXPECT_TRUE(gpu.is_host);
    EXPECT_LE(profile.machine.link.h2d.bytes_per_second, 200e6);
    EXPECT_LE(profile.machine.link.d2h.bytes_per_second, 100e6);
  }
}

TEST(CalibrateHost, WritesWhatReadProfileAccepts) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "p.json";
  write_profile_file(calibrate_host(tiny(small::llama()), [](const std::string&, double) {}), path);
  const Machine machine = read_profile(path);
  EXPECT_TRUE(machine.measured);
  EXPECT_EQ(machine.gpu.hbm_bytes, std::int64_t{1} << 30);  // capacities are chosen, not measured
  EXPECT_GT(machine.host_op_seconds, 0);
  EXPECT_GT(machine.cpu.adamw_by_threads.at(0).per_second, 0);
  // Sums and norms take other times than a copy of as many bytes: no schedule's are priced by the rate of DRAM.
  std::set<std::string> passes;
  for (const HostPassPoint& point : machine.cpu.passes)
    if (point.threads == 1) passes.insert(point.name);
  for (const ElementType sum : {ElementType::bf16, ElementType::fp32})
    for (const ElementType part : {ElementType::bf16, ElementType::fp32})
      for (const std::string& name :
           {finish_pass_name(sum, part), accumulate_pass_name(part, sum, true), accumulate_pass_name(part, sum, false)})
        EXPECT_TRUE(passes.contains(name)) << name;
}

TEST(CalibrateHost, TimesAttentionOnTheDocumentsOfTheWorkload) {
  const TemporaryFolder folder;
  Scenario scenario = tiny(small::llama());
  std::vector<TestDocument> documents;
  for (std::uint32_t d = 0; d < 40; ++d) documents.push_back({std::vector<std::uint32_t>(4 + d % 9, d), {}});
  scenario.data = folder.write("data", token_file_bytes(documents, 256));
  take_rows_of_data(scenario);
  ASSERT_EQ(scenario.rows, BatchKind::packed);
  const auto path = folder.path() / "p.json";
  write_profile_file(calibrate_host(scenario, [](const std::string&, double) {}), path);
  const std::vector<AttentionPoint> points = read_profile(path).gpu.attentions;
  ASSERT_EQ(points.size(), 1u);
  // Of the rows that were timed, not of the file's.
  EXPECT_DOUBLE_EQ(points[0].squared_lengths, squared_lengths(calibration_rows(scenario), scenario.sequence_length));
  EXPECT_NE(points[0].squared_lengths, scenario.squared_lengths);
  EXPECT_LT(points[0].squared_lengths, 32 * 32 / 2);
  EXPECT_GT(points[0].backward_seconds, 0);
}

}  // namespace
}  // namespace penstock::exec
