#include "shared/timeline/history.h"

#include <algorithm>

namespace penstock {

History::History(const Schedule& schedule, const Timeline& timeline) : schedule_(schedule), times_(timeline.ops) {
  const std::size_t ops = schedule.ops.size();
  first_step_ = times_.empty() ? 0 : times_.front().step;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const auto steps = static_cast<std::size_t>(times_[i].step - first_step_) + 1;
    if (step_begin_.size() < steps) step_begin_.resize(steps, i);
  }
  step_begin_.push_back(times_.size());

  std::vector<std::vector<Dependency>> of(ops);
  std::vector<int> last_on_lane(schedule.lanes.size(), -1), first_on_lane(schedule.lanes.size(), -1);
  for (const Op& op : schedule.ops) {
    if (first_on_lane[op.lane] < 0) {
      first_on_lane[op.lane] = op.id;
    } else {
      of[op.id].push_back({last_on_lane[op.lane], 0});
    }
    last_on_lane[op.lane] = op.id;
    if (const auto* wait = std::get_if<WaitWork>(&op.work)) {
      of[op.id].push_back({wait->op, wait->distance});
      waits_.push_back(op.id);
    }
  }
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane)
    if (first_on_lane[lane] >= 0) of[first_on_lane[lane]].push_back({last_on_lane[lane], 1});
  for (const Edge& edge : schedule.edges) of[edge.to].push_back({edge.from, edge.distance});
  begin_.push_back(0);
  for (const auto& list : of) {
    dependencies_.insert(dependencies_.end(), list.begin(), list.end());
    begin_.push_back(dependencies_.size());
  }
}

const OpTime* History::find(Instance instance) const {
  const int step = instance.step - first_step_;
  if (step < 0 || instance.op < 0 || static_cast<std::size_t>(step) + 1 >= step_begin_.size()) return nullptr;
  const auto begin = times_.begin() + static_cast<std::ptrdiff_t>(step_begin_[step]);
  const auto end = times_.begin() + static_cast<std::ptrdiff_t>(step_begin_[step + 1]);
  // Where every op was recorded, row and op agree.
  if (instance.op < end - begin && begin[instance.op].op == instance.op) return &begin[instance.op];
  const auto found = std::lower_bound(begin, end, instance.op, [](const OpTime& time, int op) { return time.op < op; });
  return found != end && found->op == instance.op ? &*found : nullptr;
}

Instance History::last_dependency(Instance instance) const {
  Instance last;
  const OpTime* last_time = nullptr;
  for (std::size_t i = begin_[instance.op]; i < begin_[instance.op + 1]; ++i) {
    const Instance candidate{instance.step - dependencies_[i].distance, dependencies_[i].from};
    const OpTime* time = find(candidate);
    if (time == nullptr) continue;
    if (last_time == nullptr || time->end > last_time->end || (time->end == last_time->end && candidate.op < last.op)) {
      last = candidate;
      last_time = time;
    }
  }
  return last;
}

Instance History::wait_before(Instance instance) const {
  if (waits_.empty() || !is_gpu(schedule_.lanes[schedule_.ops[instance.op].lane].kind)) return {};
  const auto after = std::lower_bound(waits_.begin(), waits_.end(), instance.op);
  if (after != waits_.begin()) return {instance.step, *(after - 1)};
  return {instance.step - 1, waits_.back()};
}

Instance History::binding(Instance instance) const {
  const Instance dependency = last_dependency(instance), wait = wait_before(instance);
  const OpTime *dependency_time = find(dependency), *wait_time = find(wait);
  if (wait_time == nullptr) return dependency;
  if (dependency_time == nullptr) return wait;
  return wait_time->end > dependency_time->end ? wait : dependency;
}

std::vector<Instance> History::lane_instances(int lane) const {
  std::vector<Instance> instances;
  for (const OpTime& time : times_)
    if (static_cast<std::size_t>(time.op) < schedule_.ops.size() && schedule_.ops[time.op].lane == lane)
      instances.push_back({time.step, time.op});
  return instances;
}

SteadyWindow steady_window(const Schedule& schedule, const Timeline& timeline) {
  const int boundary_op = last_backward_op(schedule);
  const int first = timeline.first_step + std::max(0, timeline.warmup_steps - 1);
  SteadyWindow window;
  bool begun = false;
  for (const OpTime& time : timeline.ops) {
    if (time.op != boundary_op || time.step < first) continue;
    if (begun) ++window.periods;
    if (!begun) window.begin = time.end;
    begun = true;
    window.end = time.end;
    window.last_step = time.step;
  }
  return window;
}

int compute_lane(const Schedule& schedule) {
  const int op = last_backward_op(schedule);
  if (op < 0) return -1;
  const int lane = schedule.ops[op].lane;
  return schedule.lanes[lane].kind == LaneKind::gpu_compute ? lane : -1;
}

}  // namespace penstock
