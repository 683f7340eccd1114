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

LaneEvents::LaneEvents(const BoundSchedule& bound, int recorded_steps)
    : ops_(bound.ops.size()), recorded_(recorded_steps), anchor_(make(cudaEventDefault)) {
  starts_.resize(ops_ * static_cast<std::size_t>(recorded_));
  ends_.resize(starts_.size());
  marked_.resize(starts_.size());
  for (auto& turn : turns_) turn.resize(ops_);
  for (const BoundOp& op : bound.ops) {
    if (!is_gpu(op.lane_kind)) continue;
    for (int step = 0; step < recorded_; ++step) {
      starts_[slot(op.op->id, step)] = make(cudaEventDefault);
      ends_[slot(op.op->id, step)] = make(cudaEventDefault);
    }
    for (auto& turn : turns_) turn[static_cast<std::size_t>(op.op->id)] = make(cudaEventDisableTiming);
  }
}

void LaneEvents::mark_start(int op, int step, cudaStream_t stream) {
  if (step < recorded_) PENSTOCK_CUDA(cudaEventRecord(starts_[slot(op, step)].get(), stream));
}

void LaneEvents::mark_end(int op, int step, cudaStream_t stream) {
  PENSTOCK_CUDA(cudaEventRecord(end(op, step), stream));
  if (step < recorded_) marked_[slot(op, step)] = 1;
}

cudaEvent_t LaneEvents::end(int op, int step) const {
  return step < recorded_ ? ends_[slot(op, step)].get() : turns_[step % 2][static_cast<std::size_t>(op)].get();
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
