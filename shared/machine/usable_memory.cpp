// What a machine keeps of its memory where nobody says how much.
//
// DRAM of a hardware file is what is installed. 1.5 GiB and 4 % of it are kept:
//   by the system, 512 MiB and 2 %: kernel and services; page descriptors (64 bytes per page of 4096, 1.6 %) and what
//     firmware holds back, both gone before MemTotal (of 16384 MiB installed 15773 may be seen). A desktop's session,
//     1 to 3 GiB, is not in it: `[machine] reserve` says so;
//   by a run beside its arenas, 1 GiB and 2 % (kept_memory.h).
// DRAM of a profile is what the calibrating process could allocate, so that the system's share is out already: a run's
// is kept.
// Where another system's code is what runs, its file says what its processes take: 1 GiB and 3 % of what is installed are
// kept beside that (docs/capacity.md has the reports that they were held against).
//
// HBM of a hardware file is the datasheet's. Drivers report 23.6 GiB of 24, 31.4 of 32, 39.5 of 40, 79.3 of 80 (out of
// memory messages of PyTorch): 0.4 GiB and more, growing with the card. A context with cuBLAS, cuDNN and their kernels
// takes 795 MiB on an H200 (`penstock-exec devices`; 256 of them for kernels that are loaded at first use). HBM of a
// profile is what the driver reports.
//
// Where the CPU stands in for the GPU, capacities are parts of its memory that somebody chose, and nothing is kept:
// `penstock-exec run` holds them against what is free.
#include <algorithm>

#include "shared/kept_memory.h"
#include "shared/machine/machine.h"

namespace penstock {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

constexpr std::int64_t kSystemBytes = 512 * kMiB;
constexpr int kSystemPercent = 2;

/// `fixed` and `percent` of the capacity; of a tiny one, which is a what-if, a quarter at most.
std::int64_t usual(std::int64_t capacity, std::int64_t fixed, int percent) {
  return std::min(capacity / 4, fixed + capacity / 100 * percent);
}

}  // namespace

std::int64_t context_bytes(const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  if (gpu.context_bytes) return *gpu.context_bytes;
  if (gpu.is_host) return 0;
  return machine.measured ? usual(gpu.hbm_bytes, 832 * kMiB, 0) : usual(gpu.hbm_bytes, kGiB, 1);
}

std::int64_t reserve_bytes(const Machine& machine) {
  if (machine.reserve_bytes) return *machine.reserve_bytes;
  if (machine.gpu.is_host) return 0;
  if (!machine.measured && !machine.software.name.empty()) return usual(machine.dram_bytes, kGiB, 3);
  return machine.measured ? usual(machine.dram_bytes, kRunBytes, kRunPercent)
                          : usual(machine.dram_bytes, kSystemBytes + kRunBytes, kSystemPercent + kRunPercent);
}

TierCapacities usable_memory(const Machine& machine) {
  const auto rest = [](std::int64_t capacity, std::int64_t kept) { return std::max<std::int64_t>(0, capacity - kept); };
  return {rest(machine.gpu.hbm_bytes, context_bytes(machine)), rest(machine.dram_bytes, reserve_bytes(machine)),
          machine.nvme.bytes};
}

}  // namespace penstock
