// A step time that no schedule of these parameters beats, without writing one: what the planner prunes by.
//
// Each term counts a part of what make_schedule would write, never more, and divides it by the most that the machine
// ever gives:
//   compute  the compute lane's ops at the sustained rate. (A step of length T in which compute is busy for B runs its
//            matmuls at burst + B / T x (sustained - burst); B <= T makes T >= the sustained sum.)
//   h2d, d2h bytes of each direction / the link's rate; of the weights only what a ring of weight_buffers slots cannot
//            avoid: a pass over n layers finds at most so many of them there
//   link     both together: while both run each gets the duplex rate, so that at least the shorter one runs at it
//   phases   forward and backward of each group one after the other: what leaves in forward leaves no later than the
//            ring of slots allows, what backward needs comes no earlier, with the weights that were not there yet
//   cpu      AdamW on the host, sums on the host, each on its lane
//   nvme     reads and writes of states, gradients, sums and activations that wait there, and weights (as for h2d) / the
//            drive's rates; and both together in the time that it has for both
//   dram     all of the traffic of copies and host ops / DRAM's capacity
#pragma once

#include "shared/machine/machine.h"
#include "shared/policy/parameters.h"

namespace penstock::sim {

struct StepBound {
  double compute = 0, h2d = 0, d2h = 0, link = 0, cpu = 0, nvme_read = 0, nvme_write = 0, nvme = 0, dram = 0,
         phases = 0;  // seconds

  double seconds() const;
  /// The term that decides: "compute", "link h2d", ...
  const char* binding() const;
};

/// Throws InputError as make_schedule does, and for a figure that the machine lacks (as simulate does).
StepBound step_bound(const PolicyInput& input, const Machine& machine);

}  // namespace penstock::sim
