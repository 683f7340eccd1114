// For descriptions of machines: a small step on whatever is accepted takes a time that is finite and more than zero.
#pragma once

#include <cmath>
#include <cstdlib>

#include "shared/machine/machine.h"
#include "sim/simulate.h"
#include "tests/shared/policy/small_models.h"

namespace penstock {

/// Uploads, downloads, AdamW and sums on the host, with and without a GPU's kernels for them.
inline void check_step_on(const Machine& machine) {
  static const auto schedule_of = [](const char* preset) {
    PolicyInput input;
    input.model = small::llama();
    input.sequence_length = 16;
    input.sequences = 4;
    input.micro_batch = 2;
    input.hbm_bytes = input.dram_bytes = std::int64_t{1} << 40;
    input.host_threads = 4;
    input.parameters = preset_parameters(preset);
    return make_schedule(input);
  };
  static const Schedule kSchedules[] = {schedule_of("megatrain"), schedule_of("zero2-offload"),
                                        schedule_of("resident")};
  for (const Schedule& schedule : kSchedules) {
    const sim::Prediction prediction = sim::simulate(schedule, machine, {8, false, false});
    const auto check = [](double seconds) {
      if (!std::isfinite(seconds) || seconds <= 0) std::abort();
    };
    check(prediction.step_seconds);
    check(prediction.first_step_seconds);
    check(prediction.bounds.same_traffic_seconds);
    check(prediction.bounds.any_schedule_seconds);
    if (!std::isfinite(prediction.stalls.total_seconds) || prediction.stalls.total_seconds < 0) std::abort();
  }
}

}  // namespace penstock
