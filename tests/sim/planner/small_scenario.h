// A scenario of a small model on a machine whose link, DRAM and GPU are about equally busy, so that every choice of the
// planner matters.
#pragma once

#include "shared/scenario/scenario.h"
#include "tests/shared/policy/small_models.h"
#include "tests/sim/profile_machine.h"

namespace penstock::sim::test {

inline Machine small_machine() {
  Machine machine;
  machine.name = "small";
  machine.source = "small.toml";
  machine.gpu.hbm_bytes = (64 << 20) + (2 << 20);  // the first 64 MiB are the libraries'
  machine.gpu.context_bytes = 0;
  machine.reserve_bytes = 0;
  machine.gpu.hbm_bytes_per_second = 1e9;
  machine.gpu.matmul_flops_per_second = 2e9;
  machine.gpu.matmul_burst_flops_per_second = 2.4e9;
  machine.gpu.launch_seconds = 1e-6;
  machine.dram_bytes = 16 << 20;
  machine.cpu.cores = 4;
  machine.cpu.dram_bytes_per_second = 100e6;
  machine.link.h2d = {20e6, 1e-6, {}};
  machine.link.d2h = {22e6, 1e-6, {}};
  machine.link.duplex_h2d_bytes_per_second = 17e6;
  machine.link.duplex_d2h_bytes_per_second = 16e6;
  machine.host_op_seconds = 1e-6;
  return machine;
}

inline Scenario small_scenario(const Model& model) {
  Scenario scenario;
  scenario.path = "small.toml";
  scenario.name = "small";
  scenario.model = model;
  scenario.machine = small_machine();
  scenario.sequence_length = 32;
  scenario.sequences = 8;
  scenario.micro_batch = 2;
  scenario.policy = preset_parameters("penstock");
  return scenario;
}

/// 0: as above; 1 to 5: with one part short; 6 and 7: on a machine like a profile, with room and without. Tied and
/// untied models in turn.
inline Scenario tight_scenario(int variant) {
  Scenario scenario = small_scenario(variant % 2 == 0 ? small::llama() : small::qwen2_tied());
  Machine& machine = scenario.machine;
  switch (variant) {
    case 1: machine.gpu.hbm_bytes = (64 << 20) + 1'300'000; break;  // little beside the streams
    case 2: machine.dram_bytes = 2'500'000; break;                  // some states must leave it
    case 3: machine.link.h2d.bytes_per_second = 3e6; break;
    case 4: machine.cpu.dram_bytes_per_second = 10e6; break;
    case 5:  // some states must leave both
      machine.dram_bytes = 2'200'000;
      machine.gpu.hbm_bytes = (64 << 20) + 1'300'000;
      machine.nvme = {1 << 24, 15e6, 12e6, 1e-6};
      break;
    case 6: machine = profile_machine(); break;
    case 7:
      machine = profile_machine();
      machine.dram_bytes = 2'500'000;
      break;
    default: break;
  }
  return scenario;
}

}  // namespace penstock::sim::test
