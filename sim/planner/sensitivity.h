// What a faster part of the machine would be worth to a schedule: the same ops, simulated again.
//
// A part that is faster can be used as slowly as before, so that no step becomes longer. The same ops at full speed may
// take longer all the same: faster copies take more of DRAM from an AdamW that the step waits for. Then the gain is
// nothing, and `unpaced_gain` says what full speed would do.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"

namespace penstock::sim {

struct Sensitivity {
  std::string part;         // "matmul", "link", "dram", "hbm", "nvme"
  double factor = 1;        // so many times faster
  double gain = 0;          // steps per second more, as a share of now's; never negative
  double unpaced_gain = 0;  // of the same ops at full speed, whatever that does to the rest
};

/// The machine with one part `factor` times faster. Parts:
///   matmul  the GPU's matmul rates, and attention with them; in bursts and sustained
///   hbm     its memory, and the kernels that it bounds
///   link    both directions, alone, in duplex and beside the CPU
///   dram    DRAM and what the CPU makes of it: AdamW, sums, every pass of the host; what copies get beside them
///   nvme    the drive, reading and writing
/// Both of figures from a file and of a profile's tables. Fixed costs (launches, latencies, signals) stay.
Machine with_faster(Machine machine, const std::string& part, double factor);

/// Each part 10 % faster, in the order above; NVMe only where the schedule uses it.
std::vector<Sensitivity> sensitivities(const Schedule& schedule, const Machine& machine);

}  // namespace penstock::sim
