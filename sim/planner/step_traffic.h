// What a step moves and updates, counted from a plan without writing an op: the ledger that the planner's bounds read.
//
// make_schedule writes the same, op for op; tests/sim/planner/step_traffic_test.cpp holds every figure against its
// schedules. Two are least figures, since they hang on the order in which a ring of weight_buffers slots is filled: a
// pass over n decoder layers finds at most so many of them there. Not counted is what is small whatever the policy:
// tokens, losses, step scalars, parts of the norm.
#pragma once

#include <cstdint>

#include "shared/policy/plan.h"

namespace penstock::sim {

struct StepTraffic {
  // bytes of copies, by direction
  std::int64_t h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;
  // further ones: decoder weights that pass through a ring, at least
  std::int64_t ring_h2d = 0, ring_nvme_read = 0;
  // on the host
  std::int64_t host_elements = 0;    // that AdamW updates
  std::int64_t host_sum_bytes = 0;   // read and written by sums of gradients and their finish
  std::int64_t host_pass_bytes = 0;  // of other passes: the system's own, and copies within DRAM
  // on the GPU
  std::int64_t gpu_resident_elements = 0, gpu_streamed_elements = 0;  // that AdamW updates
  std::int64_t gpu_finish_bytes = 0;                                  // read and written by finishing gradients
};

StepTraffic step_traffic(const Plan& plan);

// Of one layer.
std::int64_t finish_bytes(const Plan& plan, int layer);  // read and written by finishing its gradient
std::int64_t gpu_resident_elements(const Plan& plan, int layer);

/// Over the chunks of a sequence; where none is cut, of one micro-batch.
template <typename BytesOf>
std::int64_t sum_over_sequence(const Plan& plan, const BytesOf& bytes_of) {
  std::int64_t sum = 0;
  for (int m = 0; m < plan.chunks; ++m) sum += bytes_of(m);
  return sum;
}

}  // namespace penstock::sim
