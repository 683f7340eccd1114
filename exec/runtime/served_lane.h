// A GPU lane that a thread of the host serves: what was launched on it waits for its predecessors on the board, is
// executed, recorded and published, one after the other. All lanes of the host backend; on CUDA those whose copies go
// through a ring.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "exec/runtime/board.h"
#include "exec/runtime/bound_op.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {

class ServedLane {
 public:
  /// Called on the lane's thread; an op has ended when it returns. What it throws aborts the run.
  using Execute = std::function<void(const BoundOp& op, int step)>;

  /// The first three outlive this.
  ServedLane(const BoundSchedule& bound, Board& board, Recorder& recorder, Execute execute);
  /// Blocks until all that was launched has been executed or, after an abort, never will be.
  ~ServedLane();

  void launch(int op, int step);

 private:
  struct Launch {
    int op = 0;
    int step = 0;
  };
  /// Blocks for the next one; nullopt once the lane is closed and nothing is left.
  std::optional<Launch> next();
  void serve();
  void execute(const Launch& launch);

  const BoundSchedule& bound_;
  Board& board_;
  Recorder& recorder_;
  Execute execute_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Launch> launches_;
  bool closed_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace penstock::exec
