#include "exec/runtime/stall_meter.h"

#include <algorithm>

#include "shared/timeline/history.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

StallMeter::StallMeter(const Schedule& schedule) {
  const int lane = compute_lane(schedule);
  if (lane < 0) return;
  last_backward_ = last_backward_op(schedule);
  is_on_lane_.resize(schedule.ops.size());
  for (const Op& op : schedule.ops) {
    if (op.lane != lane) continue;
    lane_.push_back(op.id);
    is_on_lane_[static_cast<std::size_t>(op.id)] = 1;
  }
}

void StallMeter::add(int step, int op, std::int64_t start_ns, std::int64_t end_ns) {
  if (!meters(op)) return;
  idle_ns_ += std::max<std::int64_t>(0, start_ns - idle_since_);
  idle_since_ = std::max(idle_since_, end_ns);
  if (op != last_backward_) return;
  stalls_[static_cast<std::size_t>(step % kKept)] = {static_cast<double>(idle_ns_) * 1e-9,
                                                     static_cast<double>(idle_since_ - period_since_) * 1e-9};
  idle_ns_ = 0;
  period_since_ = idle_since_;
}

}  // namespace penstock::exec
