// A copy of all states in host memory, so that a checkpoint is written of one step while the next ones are trained.
#pragma once

#include <cstdint>

#include "exec/checkpoint/states.h"
#include "exec/memory/memory.h"
#include "shared/ir/schedule.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// What a snapshot of this schedule's states takes.
std::int64_t snapshot_bytes(const Schedule& schedule);

class StateSnapshot {
 public:
  /// Takes the memory, and touches it. Both must outlive this. Throws DoesNotFit.
  StateSnapshot(const Schedule& schedule, const Model& model);

  /// Copies, on `threads` threads, what the memories hold now. Not during a run. Throws as their reads do; the snapshot
  /// is then of no step.
  void take(const TierMemories& memories, int threads);

  std::int64_t bytes() const { return bytes_; }
  /// Of what was taken last. REQUIRES: this outlives it.
  StateReader states() const { return StateReader(schedule_, model_, copies_); }

 private:
  const Schedule& schedule_;
  const Model& model_;
  TierMemories copies_;  // of the places of states alone, addressed as the tier is
  std::int64_t bytes_;
};

}  // namespace penstock::exec
