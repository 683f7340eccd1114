// The discrete-event engine: runs a schedule step after step with given costs.
//
// What it obeys:
//  - A lane executes its ops one at a time, in order, step after step.
//  - An op starts when its lane is free, all its predecessors have ended and, on GPU lanes, it has been launched.
//  - One thread launches GPU ops in id order, ahead of their execution; each takes its launch_seconds. At a wait the
//    thread stands until the awaited op has ended, and the wait's latency_seconds longer if it had arrived before that:
//    it has to be woken. It goes on into the next step without a pause.
//  - Step s is handed to the lanes when the GPU op of step s - 2 that is launched last has ended (as the executor
//    launches), and when every op of step s - 3 has: what host and drive do behind a step may take a step longer.
//  - A running op first spends its latency, then advances at the rate that fluid.h gives it. Rates change only when an
//    op starts or ends; where no resource is asked for more than it has, every op runs at solo speed.
//
// Power. An op whose cost has sustained_extra_seconds takes fluid_seconds + power_share(duty) x it: a GPU that never
// pauses runs at its power-limited rate, one that idles runs faster, by a measured curve or in proportion (Capacities).
// Where the time constant of the limit was measured, duty is the mean over the op of how busy the compute lane has been
// lately, an exponential average; else it is the share of the previous step during which it was busy (0 in the first).
//
// Time is counted from the last step boundary (the end of the boundary op): in the steady state each step is then the
// same arithmetic on the same numbers, and the state repeats to the bit, not just nearly. Events at one moment are
// handled in lane order; nothing depends on addresses, hashes or the clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"
#include "sim/engine/flat_schedule.h"
#include "sim/engine/fluid.h"
#include "sim/engine/resources.h"

namespace penstock::sim {

/// Everything that decides the future at a step boundary, relative to it.
struct EngineState {
  std::vector<std::int32_t> positions;
  std::vector<double> seconds;

  /// Equal positions, and seconds within `tolerance_seconds`.
  bool repeats(const EngineState& earlier, double tolerance_seconds) const;
};

class Engine {
 public:
  /// `schedule`, `costs` and `capacities` must outlive the engine. `boundary_op` ends each step; `compute_lane` is the
  /// one whose duty counts (-1: none).
  Engine(const Schedule& schedule, const std::vector<OpCost>& costs, const Capacities& capacities, int boundary_op,
         int compute_lane);

  /// Runs until the next end of the boundary op. Returns the seconds since the one before (or since the start).
  /// Throws std::logic_error naming the blocked ops if nothing can go on, which no checked schedule does.
  double run_to_boundary();

  /// Boundaries passed so far.
  int steps() const { return steps_; }
  /// REQUIRES: the last call was run_to_boundary.
  EngineState state() const;
  /// Busy seconds per lane (as schedule.lanes) of ops that ended in the step that just passed; a wait is busy while it
  /// blocks.
  const std::vector<double>& busy_seconds() const { return busy_; }

  /// From now on keeps the times of ops of `count` steps from steps() + 1 on, the first that cannot have begun.
  /// REQUIRES: the last call was run_to_boundary.
  void start_recording(int count);
  /// Runs until all steps asked for are recorded. Times count from the earliest start among them.
  std::vector<OpTime> finish_recording();
  int first_recorded_step() const { return record_first_; }

 private:
  enum class Run : std::uint8_t { idle, launching, latency, fluid, whole };
  struct Lane {
    double time = kUnlimited;  // of its next event
    double start = 0;
    double remaining = 0, rate = 0, since = 0;  // fluid: progress left at `since`
    std::int32_t step = 0;
    std::int32_t next = 0, begin = 0, end = 0;  // position in lane_ops.items
    std::int32_t op = -1;                       // head; -1: an empty lane
    Run run = Run::idle;
    bool gpu = false;
  };
  static constexpr int kSlots = 4;  // three steps in flight, and counters of the one after them

  std::size_t slot(int step) const { return static_cast<std::size_t>(step % kSlots); }
  std::int32_t& counter(int step, int op) { return counters_[slot(step) * static_cast<std::size_t>(flat_.ops) + op]; }
  double& segment_start(int step, int segment) {
    return segment_start_[slot(step) * flat_.segment_seconds.size() + segment];
  }
  double& wait_ready(int step, int wait) { return wait_ready_[slot(step) * flat_.waits.size() + wait]; }
  void reset_slot(int step);
  void advance_one_event();
  void try_start(Lane& lane);
  void begin(Lane& lane);
  double share_of_sustained(int op) const;
  /// The exponential average of the compute lane's activity now, if it has rested since its last end.
  double rested_duty() const;
  void enter_fluid(Lane& lane);
  void end_op(Lane& lane);
  void share();
  void set_rate(Lane& lane, double rate);
  void op_ended(int step, int op, int lane, double start);
  void release_successors(const IndexLists& successors, int op, int step);
  void release_steps();
  void start_segments(double time);
  void schedule_wait();
  void end_wait();
  void rebase();
  [[noreturn]] void fail_blocked() const;
  std::string blocked_reason(int step, int op) const;

  const Schedule& schedule_;
  const std::vector<OpCost>& costs_;
  const Capacities& capacities_;
  const FlatSchedule flat_;
  const int boundary_op_;
  const int compute_lane_;

  double now_ = 0;     // since the last boundary
  double origin_ = 0;  // of recorded times
  int steps_ = 0;      // boundaries passed
  bool at_boundary_ = false;
  bool dirty_ = false;                    // the set of ops that share has changed
  double power_share_ = 0;                // without a measured time constant: of the previous step
  double recent_duty_ = 0, duty_at_ = 0;  // with one: as of the compute lane's last end
  int released_ = 1;                      // last step handed to the lanes
  int launched_last_ = -1;                // the GPU op that is, of a step; -1: there is none
  int launched_ended_ = -1, ended_ = -1;  // the last step of which that op has ended; all ops have
  std::vector<Lane> lanes_;
  std::vector<std::uint8_t> shares_;      // op uses a resource or belongs to a class
  std::vector<double> still_away_;        // per op: mean_still_away
  std::vector<std::int32_t> counters_;    // kSlots x ops: predecessors that have not ended
  std::vector<std::int32_t> unfinished_;  // kSlots: ops that have not ended
  std::vector<double> segment_start_;     // kSlots x segments: kUnlimited = not yet
  std::vector<double> wait_ready_;        // kSlots x waits: when a thread that stands there may go on
  std::vector<double> busy_;
  std::vector<FluidOp> fluid_;  // scratch of share()
  std::vector<Lane*> sharing_;
  ResourceVector beside_{};  // scratch too: capacities while a drive reads and writes

  // The launch thread: in `launch_segment_` of `launch_step_`, whose launches end at launch_free_.
  int launch_step_ = 0, launch_segment_ = 0;
  int launch_lane_ = -1;
  bool launch_parked_ = false;  // at the end of a step, the next one not yet released
  double launch_free_ = 0;
  double wait_time_ = kUnlimited;  // end of the current wait, once known

  int record_first_ = 0, record_count_ = 0;
  std::size_t unrecorded_ = 0;
  std::vector<OpTime> records_;
};

}  // namespace penstock::sim
