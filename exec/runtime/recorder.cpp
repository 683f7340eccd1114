#include "exec/runtime/recorder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::exec {

std::vector<OpTime> Recorder::times(int first_step, int steps) const {
  const int kept = std::min(steps, steps_);
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (std::size_t op = 0; op < ops_ && kept > 0; ++op) origin = std::min(origin, spans_[op].start);
  std::vector<OpTime> result;
  result.reserve(ops_ * static_cast<std::size_t>(kept));
  for (int step = 0; step < kept; ++step)
    for (std::size_t op = 0; op < ops_; ++op) {
      const Span& span = spans_[static_cast<std::size_t>(step) * ops_ + op];
      result.push_back({first_step + step, static_cast<int>(op), static_cast<double>(span.start - origin) * 1e-9,
                        static_cast<double>(span.end - origin) * 1e-9});
    }
  return result;
}

void Recorder::append(Recorder next) {
  if (steps_ == 0) {
    *this = std::move(next);
    return;
  }
  spans_.insert(spans_.end(), next.spans_.begin(), next.spans_.end());
  steps_ += next.steps_;
}

}  // namespace penstock::exec
