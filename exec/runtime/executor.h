// Runs a bound schedule for a number of steps. It interprets the IR and knows no policy.
//
// Threads: one launch thread walks the GPU and launch-lane ops in id order, step after step, and enqueues them (it runs
// at most two steps ahead, so that a stop is near); one thread for each host lane walks its lane in list order and
// waits for predecessors on the board; a watchdog. Nothing joins between steps: what the edges allow to overlap,
// overlaps.
//
// Ends: all steps done; or a stop was asked for (the step that any lane has begun last is finished by all, outstanding
// optimizer ops included); or an op failed (every wait is released, nothing more is executed, the first error is
// rethrown); or nothing completed for watchdog_seconds (an error that names the ops that hang).
#pragma once

#include <functional>
#include <string>

#include "exec/runtime/backend.h"
#include "exec/runtime/board.h"
#include "exec/runtime/bound_op.h"
#include "exec/runtime/recorder.h"
#include "exec/runtime/run_control.h"
#include "exec/runtime/update_gates.h"

namespace penstock::exec {

struct ExecutorOptions {
  int steps = 1;
  int record_steps = 0;                         // the leading run steps that the recorder keeps
  double watchdog_seconds = 120;                // 0 = none
  std::string watchdog_why = "the watchdog's";  // whose limit that is and what would change it, for its message
  RunControl* control = nullptr;                // ends the run from another thread; may be nullptr
  UpdateGates* gates = nullptr;                 // of the bound schedule's; nullptr: all are open
  // Tests: called on the executing thread before each op of a host lane.
  std::function<void(const Op&, int step, const Board&)> before_host_op;
  // When a watchdog's abort does not end the run either (an op never returns). Empty: say so on stderr and std::quick_exit(1).
  std::function<void(const std::string&)> on_unkillable;
};

struct ExecutorResult {
  int steps = 0;  // completed; fewer than asked for after a stop
  bool stopped = false;
  Recorder recorder;
};

/// Blocks until the end. REQUIRES: a backend that holds the arenas to which `bound` points.
ExecutorResult execute(const BoundSchedule& bound, Backend& backend, const ExecutorOptions& options);

/// One sentence for each lane that is not through `steps` steps: the op at which it stands and what that waits for.
std::string describe_hang(const BoundSchedule& bound, const Board& board, int steps);

}  // namespace penstock::exec
