// What a faster part of the machine would be worth to a schedule: the same ops, simulated again.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"

namespace penstock::sim {

struct Sensitivity {
  std::string part;         // "matmul", "link", "dram", "hbm", "nvme"
  double factor = 1;        // so many times faster
  double step_seconds = 0;  // then
};

/// The machine with one part `factor` times faster. Parts:
///   matmul  the GPU's matmul rates, and attention with them
///   hbm     its memory
///   link    both directions, alone and in duplex
///   dram    DRAM and what the CPU makes of it: AdamW, sums
///   nvme    the drive, reading and writing
Machine with_faster(Machine machine, const std::string& part, double factor);

/// Each part 10 % faster, in the order above; NVMe only where the schedule uses it.
std::vector<Sensitivity> sensitivities(const Schedule& schedule, const Machine& machine);

}  // namespace penstock::sim
