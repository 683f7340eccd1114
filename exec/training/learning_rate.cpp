#include "exec/training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock::exec {

double learning_rate_of_step(std::int64_t step, double peak, std::int64_t warmup_steps, const RateOptions& rate) {
  if (step < warmup_steps) return peak * (static_cast<double>(step) / static_cast<double>(warmup_steps));
  if (rate.schedule == RateSchedule::constant) return peak;
  if (step >= rate.total_steps) return rate.final_rate;
  const std::int64_t first = rate.schedule == RateSchedule::wsd ? rate.total_steps - rate.decay_steps
                                                                : std::max<std::int64_t>(1, warmup_steps);
  if (step <= first) return peak;
  const double done = static_cast<double>(step - first) / static_cast<double>(rate.total_steps - first);
  const double left = rate.schedule == RateSchedule::cosine ? (1 + std::cos(std::numbers::pi * done)) / 2 : 1 - done;
  return rate.final_rate + (peak - rate.final_rate) * left;
}

}  // namespace penstock::exec
