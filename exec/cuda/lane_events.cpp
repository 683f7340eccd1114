#include "exec/cuda/lane_events.h"

#include <algorithm>
#include <utility>

#include "exec/cuda/error.h"

namespace penstock::exec {

LaneEvents::Event LaneEvents::make(unsigned flags) {
  cudaEvent_t event = nullptr;
  PENSTOCK_CUDA(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

LaneEvents::LaneEvents(const BoundSchedule& bound, int recorded_steps, const StallMeter& meter)
    : ops_(bound.ops.size()), recorded_(recorded_steps), anchor_(make(cudaEventDefault)) {
  starts_.resize(ops_ * static_cast<std::size_t>(recorded_));
  ends_.resize(starts_.size());
  marked_.resize(starts_.size());
  start_turns_.resize(ops_);
  turns_.resize(ops_);
  for (const BoundOp& op : bound.ops) {
    if (!is_gpu(op.lane_kind)) continue;
    for (int step = 0; step < recorded_; ++step) {
      starts_[slot(op.op->id, step)] = make(cudaEventDefault);
      ends_[slot(op.op->id, step)] = make(cudaEventDefault);
    }
    const bool is_metered = meter.meters(op.op->id);
    const auto at = static_cast<std::size_t>(op.op->id);
    for (int turn = 0; turn < (is_metered ? kMeteredTurns : 2); ++turn) {
      turns_[at].push_back(make(is_metered ? cudaEventDefault : cudaEventDisableTiming));
      if (is_metered) start_turns_[at].push_back(make(cudaEventDefault));
    }
  }
}

void LaneEvents::mark_start(int op, int step, cudaStream_t stream) {
  if (const cudaEvent_t event = start(op, step); event != nullptr) PENSTOCK_CUDA(cudaEventRecord(event, stream));
}

void LaneEvents::mark_end(int op, int step, cudaStream_t stream) {
  PENSTOCK_CUDA(cudaEventRecord(end(op, step), stream));
  if (step < recorded_) marked_[slot(op, step)] = 1;
}

cudaEvent_t LaneEvents::start(int op, int step) const {
  if (step < recorded_) return starts_[slot(op, step)].get();
  const std::vector<Event>& turns = start_turns_[static_cast<std::size_t>(op)];
  return turns.empty() ? nullptr : turns[static_cast<std::size_t>(step) % turns.size()].get();
}

cudaEvent_t LaneEvents::end(int op, int step) const {
  if (step < recorded_) return ends_[slot(op, step)].get();
  const std::vector<Event>& turns = turns_[static_cast<std::size_t>(op)];
  return turns[static_cast<std::size_t>(step) % turns.size()].get();
}

void LaneEvents::anchor(cudaStream_t stream) {
  // The first synchronisation wakes the device; the second round trip is short, and its middle is the best guess.
  for (int round = 0; round < 2; ++round) {
    const std::int64_t before = now_ns();
    PENSTOCK_CUDA(cudaEventRecord(anchor_.get(), stream));
    PENSTOCK_CUDA(cudaEventSynchronize(anchor_.get()));
    anchor_ns_ = before + (now_ns() - before) / 2;
  }
}

void LaneEvents::report(const BoundSchedule& bound, int steps, Recorder& recorder) const {
  // cudaEventElapsedTime answers in float milliseconds: exact to a microsecond only over some ten seconds. So each step
  // is read against a base of its own, the start of its first op, and the bases against each other.
  cudaEvent_t base = anchor_.get();
  double base_ns = static_cast<double>(anchor_ns_);
  const auto elapsed_ns = [](cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = 0;
    PENSTOCK_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
    return static_cast<double>(milliseconds) * 1e6;
  };
  for (int step = 0; step < std::min(steps, recorded_); ++step) {
    bool first = true;
    for (const BoundOp& op : bound.ops) {
      const std::size_t at = slot(op.op->id, step);
      if (!is_gpu(op.lane_kind) || !marked_[at]) continue;
      if (std::exchange(first, false)) {
        base_ns += elapsed_ns(base, starts_[at].get());
        base = starts_[at].get();
      }
      recorder.record(step, op.op->id, static_cast<std::int64_t>(base_ns + elapsed_ns(base, starts_[at].get())),
                      static_cast<std::int64_t>(base_ns + elapsed_ns(base, ends_[at].get())));
    }
  }
}

}  // namespace penstock::exec
