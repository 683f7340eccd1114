// The events of one run: for every GPU op one that marks its end, and one that marks its start for recorded steps and on
// the compute lane.
//
// An event is recorded once a step, and the launch thread enqueues ops in id order, step after step; an edge reaches at
// most one step back. Two events per op, used by turns, therefore suffice where nothing is recorded; those of the
// compute lane stay for kMeteredTurns steps, so that they can be read while the run goes on (stall_watch.h).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "exec/runtime/bound_op.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {

class LaneEvents {
 public:
  static constexpr int kMeteredTurns = 4;

  LaneEvents(const BoundSchedule& bound, int recorded_steps, const StallMeter& meter);

  /// Marks the place in `stream` where the op starts (of recorded steps and the compute lane only) and where it ends.
  void mark_start(int op, int step, cudaStream_t stream);
  void mark_end(int op, int step, cudaStream_t stream);
  /// The events of the last marks of this op and step; no start where none is marked.
  cudaEvent_t start(int op, int step) const;
  cudaEvent_t end(int op, int step) const;
  /// Marks the instant from which the device's clock is read against the host's. Blocks until it is reached.
  void anchor(cudaStream_t stream);
  cudaEvent_t anchor() const { return anchor_.get(); }
  std::int64_t anchor_ns() const { return anchor_ns_; }
  /// Hands all recorded times to the recorder. REQUIRES: every stream has been synchronised.
  void report(const BoundSchedule& bound, int steps, Recorder& recorder) const;

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using Event = std::unique_ptr<CUevent_st, Destroy>;
  static Event make(unsigned flags);
  std::size_t slot(int op, int step) const {
    return static_cast<std::size_t>(step) * ops_ + static_cast<std::size_t>(op);
  }

  std::size_t ops_;
  int recorded_;
  std::vector<Event> starts_, ends_;                     // [recorded step][op]
  std::vector<std::vector<Event>> start_turns_, turns_;  // [op][step % how many the op has]; starts: compute lane only
  std::vector<char> marked_;                             // [recorded step][op]: mark_end was called
  Event anchor_;
  std::int64_t anchor_ns_ = 0;
};

}  // namespace penstock::exec
