// A small machine with all that a profile has and a hardware file lacks: copy curves, shared DRAM, a power curve, kernels
// and host passes by name, rates by threads. No figure is a round multiple of another.
#pragma once

#include "shared/ir/host_pass_names.h"
#include "shared/machine/machine.h"
#include "shared/model/kernels.h"

namespace penstock::sim::test {

/// Copies of few bytes are slower than those of many, which reach `rate`.
inline std::vector<CopyPoint> copy_curve(double rate) {
  std::vector<CopyPoint> curve;
  for (const double bytes : {256.0, 4096.0, 65536.0, 1048576.0})
    curve.push_back({bytes, 4e-6 + bytes / rate * (1 + 0.2 * 256 / bytes)});
  return curve;
}

inline Machine profile_machine() {
  Machine machine;
  machine.name = "profile";
  machine.source = "profile.json";
  machine.measured = true;
  Gpu& gpu = machine.gpu;
  gpu.hbm_bytes = (64 << 20) + (2 << 20);  // the first 64 MiB are the libraries'
  gpu.context_bytes = 0;
  gpu.hbm_bytes_per_second = 1e9;
  gpu.matmul_flops_per_second = 2e9;
  gpu.matmul_burst_flops_per_second = 2.6e9;
  gpu.launch_seconds = 1e-6;
  gpu.op_launch_seconds = 2e-6;
  gpu.op_seconds = 3e-6;
  // Of the shape of the small models' MLP: slower than the rate, and slower still without a pause.
  gpu.matmuls = {{64, 256, 64, false, 9e-4, {}, 0, 1.3e-3}, {64, 64, 128, false, 5e-4, {}, 0, 7e-4}};
  gpu.elementwise = {{{}, 1e4, 2e-5, 2.1e-5},
                     {{}, 1e6, 1.3e-3, 1.4e-3},
                     {KernelId::finish_gradient, 1e5, 1.7e-4, 1.8e-4},
                     {KernelId::adamw, 1e6, 1.6e-3, 1.6e-3}};
  gpu.power = {{0.3, 0.1, 0.2}, {0.7, 0.6, 0.2}, {0.25, 0.3, 0.5}, {0.6, 0.9, 0.5}};
  gpu.power_settle_seconds = 0.02;
  machine.dram_bytes = 16 << 20;
  machine.reserve_bytes = 0;
  Cpu& cpu = machine.cpu;
  cpu.cores = 4;
  cpu.dram_bytes_per_second = 100e6;
  cpu.dram_by_threads = {{1, 35e6}, {2, 61e6}, {3, 83e6}, {4, 100e6}};
  cpu.adamw_by_threads = {{1, 1.2e6}, {2, 2.1e6}, {3, 2.9e6}};
  const ElementType bf16 = ElementType::bf16, fp32 = ElementType::fp32;
  for (const double bytes : {1e5, 1e6}) {
    cpu.passes.push_back({adamw_pass_name(StateFormat::planes, fp32, bf16), 3, bytes, 1e-4 + bytes / 78e6});
    cpu.passes.push_back({accumulate_pass_name(bf16, fp32, false), 3, bytes, 1e-4 + bytes / 81e6});
    cpu.passes.push_back({accumulate_pass_name(bf16, fp32, true), 3, bytes, 1e-4 + bytes / 66e6});
    cpu.passes.push_back({finish_pass_name(fp32, bf16), 3, bytes, 1e-4 + bytes / 72e6});
  }
  cpu.sharing = {{3, false, false, 79e6, 0, 0},
                 {3, true, false, 71e6, 16e6, 0},
                 {3, false, true, 70e6, 0, 18e6},
                 {3, true, true, 63e6, 13e6, 12e6}};
  machine.link.h2d = {20e6, 4e-6, copy_curve(20e6)};
  machine.link.d2h = {22e6, 4e-6, copy_curve(22e6)};
  machine.link.duplex_h2d_bytes_per_second = 17e6;
  machine.link.duplex_d2h_bytes_per_second = 16e6;
  machine.host_op_seconds = 5e-6;
  return machine;
}

}  // namespace penstock::sim::test
