#include "shared/timeline/stalls.h"

#include <algorithm>

#include "shared/timeline/history.h"

namespace penstock {
namespace {

bool is_activation(TensorKind tensor) {
  return tensor == TensorKind::boundary || tensor == TensorKind::boundary_gradient || tensor == TensorKind::kept ||
         tensor == TensorKind::recomputed || tensor == TensorKind::kv;
}

bool is_gradient(TensorKind tensor) {
  return tensor == TensorKind::gradient_sum || tensor == TensorKind::gradient_part || tensor == TensorKind::gradient;
}

StallCause copy_cause(const Schedule& schedule, const Op& op) {
  if (op.reads.empty() || op.writes.empty()) return StallCause::overhead;
  const TierKind from = schedule.tiers[schedule.buffers[op.reads[0].buffer].tier].kind;
  const TierKind to = schedule.tiers[schedule.buffers[op.writes[0].buffer].tier].kind;
  const TensorKind tensor = op.reads[0].value.tensor;
  if (from == TierKind::nvme || to == TierKind::nvme) return StallCause::nvme;
  const bool leaves_gpu = from == TierKind::hbm && to == TierKind::dram;
  if (std::find(kInputTensors.begin(), kInputTensors.end(), tensor) != kInputTensors.end()) return StallCause::input;
  if (tensor == TensorKind::loss || tensor == TensorKind::workspace) return StallCause::overhead;
  if (is_activation(tensor)) return leaves_gpu ? StallCause::buffer : StallCause::activation;
  // A gradient that goes up to an optimizer on the GPU, like the states that go up and come back, is optimizer work.
  if (is_gradient(tensor)) return leaves_gpu ? StallCause::gradient_slab : StallCause::optimizer;
  return tensor == TensorKind::weights && !leaves_gpu ? StallCause::weights : StallCause::optimizer;
}

/// What the compute lane is waiting for while `op` runs.
StallCause cause_of(const Schedule& schedule, const Op& op) {
  struct Visitor {
    const Schedule& schedule;
    const Op& op;
    StallCause operator()(const CopyWork&) const { return copy_cause(schedule, op); }
    StallCause operator()(const TemplateWork&) const { return StallCause::overhead; }
    StallCause operator()(const OptimizerWork&) const { return StallCause::optimizer; }
    StallCause operator()(const AccumulateWork&) const { return StallCause::gradient_slab; }
    StallCause operator()(const FinishGradientWork&) const { return StallCause::optimizer; }
    StallCause operator()(const StepScalarsWork&) const { return StallCause::optimizer; }
    StallCause operator()(const InputWork&) const { return StallCause::input; }
    StallCause operator()(const ReportWork&) const { return StallCause::overhead; }
    StallCause operator()(const WaitWork&) const { return StallCause::launch; }
    StallCause operator()(const HostPassWork&) const { return StallCause::optimizer; }
  };
  return std::visit(Visitor{schedule, op}, op.work);
}

class StallWalk {
 public:
  StallWalk(const History& history, TimelineSource source, StallReport& report)
      : history_(history), predicted_(source == TimelineSource::predicted), report_(report) {}

  /// Splits the idle interval [from, to] that ended when `op` started.
  void attribute(Instance op, double from, double to) {
    double left = to;  // [from, left] is still to be explained
    while (left > from) {
      const Instance binding = history_.last_dependency(op);
      const OpTime* time = history_.find(binding);
      const double ready = time == nullptr ? from : std::clamp(time->end, from, left);
      attribute_gap(op, ready, left);
      left = ready;
      if (time == nullptr || left <= from) return;
      const double start = std::clamp(time->start, from, left);
      add(cause_of(history_.schedule(), history_.schedule().ops[binding.op]), left - start);
      left = start;
      op = binding;
    }
  }

 private:
  void add(StallCause cause, double seconds) { report_.by_cause[static_cast<std::size_t>(cause)] += seconds; }

  /// Between the end of an op's last dependency and its start: had it been launched, it would have run.
  void attribute_gap(Instance op, double ready, double start) {
    const bool gpu = is_gpu(history_.schedule().lanes[history_.schedule().ops[op.op].lane].kind);
    const OpTime* wait = history_.find(history_.wait_before(op));
    double launched = wait == nullptr ? ready : std::clamp(wait->end, ready, start);
    // The simulator has no other reason for such a gap; in a measured one the rest is signalling.
    if (gpu && predicted_) launched = start;
    add(StallCause::launch, launched - ready);
    add(StallCause::overhead, start - launched);
  }

  const History& history_;
  const bool predicted_;
  StallReport& report_;
};

}  // namespace

const char* stall_cause_name(StallCause cause) {
  static constexpr const char* kNames[kStallCauses] = {"weights", "buffer", "gradient slab", "optimizer", "activation",
                                                       "nvme",    "launch", "input",         "overhead"};
  return kNames[static_cast<int>(cause)];
}

StallReport attribute_stalls(const Schedule& schedule, const Timeline& timeline) {
  StallReport report;
  const int lane = compute_lane(schedule);
  const SteadyWindow window = steady_window(schedule, timeline);
  if (lane < 0 || window.periods == 0) return report;
  const History history(schedule, timeline);
  StallWalk walk(history, timeline.source, report);
  double idle_since = window.begin;
  for (const Instance op : history.lane_instances(lane)) {
    const OpTime& time = *history.find(op);
    const double start = std::min(time.start, window.end);
    if (start > idle_since) {
      report.total_seconds += start - idle_since;
      walk.attribute(op, idle_since, start);
    }
    idle_since = std::max(idle_since, time.end);
  }
  report.total_seconds /= window.periods;
  for (double& seconds : report.by_cause) seconds /= window.periods;
  return report;
}

std::vector<CriticalPart> critical_path(const Schedule& schedule, const Timeline& timeline) {
  std::vector<CriticalPart> parts;
  const SteadyWindow window = steady_window(schedule, timeline);
  if (window.periods == 0) return parts;
  const History history(schedule, timeline);
  const int boundary_op = last_backward_op(schedule);
  Instance op{window.last_step, boundary_op};
  const OpTime* before = nullptr;
  for (int step = window.last_step - 1; step >= timeline.first_step && before == nullptr; --step)
    before = history.find({step, boundary_op});
  const double begin = before == nullptr ? window.begin : before->end;
  double end = window.end;
  while (op && end > begin) {
    const Instance binding = history.binding(op);
    const OpTime* time = history.find(binding);
    const double from = time == nullptr ? begin : std::clamp(time->end, begin, end);
    if (end > from) parts.push_back({op.op, end - from});
    op = binding;
    end = from;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<double> lane_busy_seconds(const Schedule& schedule, const Timeline& timeline) {
  std::vector<double> busy(schedule.lanes.size(), 0);
  const SteadyWindow window = steady_window(schedule, timeline);
  if (window.periods == 0) return busy;
  // By step, not by what lies in the window: ops that run ahead of their step would be cut off at its ends.
  const int first = window.last_step - window.periods + 1;
  for (const OpTime& time : timeline.ops) {
    if (static_cast<std::size_t>(time.op) >= schedule.ops.size() || time.step < first || time.step > window.last_step)
      continue;
    busy[schedule.ops[time.op].lane] += (time.end - time.start) / window.periods;
  }
  return busy;
}

}  // namespace penstock
