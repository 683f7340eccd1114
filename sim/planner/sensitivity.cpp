#include "sim/planner/sensitivity.h"

#include <algorithm>
#include <stdexcept>

#include "sim/planner/evaluator.h"

namespace penstock::sim {
namespace {

constexpr double kFaster = 1.1;

void scale_gpu(Gpu& gpu, double factor) {
  gpu.matmul_flops_per_second *= factor;
  gpu.matmul_burst_flops_per_second *= factor;
  for (MatmulPoint& point : gpu.matmuls) {
    point.seconds /= factor;
    point.sustained_seconds /= factor;
  }
  for (AttentionRate& rate : gpu.attention.by_head_dim) {
    rate.forward *= factor;
    rate.backward *= factor;
    rate.deterministic_backward *= factor;
  }
  for (AttentionPoint& point : gpu.attentions) {
    point.forward_seconds /= factor;
    point.backward_seconds /= factor;
    point.forward_sustained_seconds /= factor;
    point.backward_sustained_seconds /= factor;
  }
}

void scale_hbm(Gpu& gpu, double factor) {
  gpu.hbm_bytes_per_second *= factor;
  for (ElementwisePoint& point : gpu.elementwise) {
    point.seconds /= factor;
    point.sustained_seconds /= factor;
  }
}

void scale_direction(LinkDirection& direction, double factor) {
  direction.bytes_per_second *= factor;
  for (CopyPoint& point : direction.curve) point.seconds /= factor;
}

void scale_link(Machine& machine, double factor) {
  scale_direction(machine.link.h2d, factor);
  scale_direction(machine.link.d2h, factor);
  machine.link.duplex_h2d_bytes_per_second *= factor;
  machine.link.duplex_d2h_bytes_per_second *= factor;
  for (DramSharing& point : machine.cpu.sharing) {
    point.h2d_bytes_per_second *= factor;
    point.d2h_bytes_per_second *= factor;
  }
}

void scale_dram(Cpu& cpu, double factor) {
  cpu.dram_bytes_per_second *= factor;
  for (ThreadRate& rate : cpu.dram_by_threads) rate.per_second *= factor;
  for (ThreadRate& rate : cpu.adamw_by_threads) rate.per_second *= factor;
  for (HostPassPoint& point : cpu.passes) point.seconds /= factor;
  for (DramSharing& point : cpu.sharing) {
    point.cpu_bytes_per_second *= factor;
    point.h2d_bytes_per_second *= factor;  // machine_capacities caps them at what the link gives
    point.d2h_bytes_per_second *= factor;
  }
}

void scale_nvme(Nvme& nvme, double factor) {
  nvme.read_bytes_per_second *= factor;
  nvme.write_bytes_per_second *= factor;
  nvme.both_read_bytes_per_second *= factor;
  nvme.both_write_bytes_per_second *= factor;
  for (NvmePoint& point : nvme.points) {
    point.read_bytes_per_second *= factor;
    point.write_bytes_per_second *= factor;
  }
}

bool uses_nvme(const Schedule& schedule) {
  return std::any_of(schedule.tiers.begin(), schedule.tiers.end(),
                     [](const Tier& tier) { return tier.kind == TierKind::nvme; });
}

}  // namespace

Machine with_faster(Machine machine, const std::string& part, double factor) {
  if (part == "matmul")
    scale_gpu(machine.gpu, factor);
  else if (part == "hbm")
    scale_hbm(machine.gpu, factor);
  else if (part == "link")
    scale_link(machine, factor);
  else if (part == "dram")
    scale_dram(machine.cpu, factor);
  else if (part == "nvme")
    scale_nvme(machine.nvme, factor);
  else
    throw std::logic_error("with_faster: there is no part " + part);
  return machine;
}

std::vector<Sensitivity> sensitivities(const Schedule& schedule, const Machine& machine) {
  std::vector<Sensitivity> result;
  std::vector<const char*> parts{"matmul", "hbm", "link", "dram"};
  if (uses_nvme(schedule)) parts.push_back("nvme");
  const double now = planned_step_seconds(schedule, machine);
  for (const char* part : parts) {
    const double unpaced = now / planned_step_seconds(schedule, with_faster(machine, part, kFaster)) - 1;
    result.push_back({part, kFaster, std::max(0.0, unpaced), unpaced});
  }
  return result;
}

}  // namespace penstock::sim
