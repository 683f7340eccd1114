#include <gtest/gtest.h>

#include "exec/calibrate/calibrate.h"
#include "exec/calibrate/calibration_ops.h"
#include "exec/cuda/backend.h"
#include "tests/shared/policy/small_models.h"
#include "tests/shared/temporary_folder.h"

namespace penstock::exec {
namespace {

/// The templates tell of exactly the kernels that shared/model/kernels.h lists, or calibration would throw.
TEST(CalibrateCuda, MeasuresEveryKernelOfSeveralModels) {
  if (!cuda_device_available()) GTEST_SKIP() << describe_cuda_devices();
  std::vector<Scenario> scenarios(2);
  scenarios[0].model = small::qwen2_tied();
  scenarios[1].model = small::qwen3();
  for (Scenario& scenario : scenarios) {
    scenario.sequence_length = 32;
    scenario.sequences = 4;
    scenario.micro_batch = 2;
    scenario.policy = preset_parameters("penstock");
    scenario.policy.numerics.chunking = {24, 20};
  }
  const TemporaryFolder folder;
  write_profile_file(calibrate_cuda(scenarios, [](const std::string&, double) {}), folder.path() / "p.json");
  const Machine machine = read_profile(folder.path() / "p.json");
  for (const Scenario& scenario : scenarios)
    for (const CalibrationOp& op : calibration_ops(scenario, std::array{ElementType::fp32, ElementType::bf16}))
      for (const Kernel& kernel : op.kernels) {
        if (kernel.kind != KernelKind::matmul) continue;
        EXPECT_TRUE(std::any_of(machine.gpu.matmuls.begin(), machine.gpu.matmuls.end(), [&](const MatmulPoint& p) {
          return p.kernel == kernel.id && p.m == kernel.m && p.n == kernel.n && p.k == kernel.k &&
                 p.accumulates == kernel.accumulates && p.output_bytes == kernel.output_bytes &&
                 p.sustained_seconds > 0;
        })) << kernel.name();
      }
  EXPECT_EQ(machine.gpu.attentions.size(), 1u);  // both have the same heads
  EXPECT_GT(machine.host_op_seconds, 0);
  EXPECT_GT(machine.link.duplex_h2d_bytes_per_second, 0);
  for (const bool through_rings : {false, true})
    EXPECT_TRUE(std::any_of(machine.cpu.sharing.begin(), machine.cpu.sharing.end(), [&](const DramSharing& point) {
      return point.cpu_threads > 0 && point.h2d && point.d2h && point.through_rings == through_rings;
    }));
  EXPECT_GT(machine.link.ring_h2d.curve.size(), 1u);
  EXPECT_GT(machine.link.ring_d2h.curve.size(), 1u);
}

}  // namespace
}  // namespace penstock::exec
