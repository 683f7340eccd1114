// A schedule, a model and a backend joined: arenas, states, and runs of any number of steps over them.
//
//   Training training(schedule, model, backend);   // allocates and binds
//   training.load(*random_states(seed));
//   training.run(options);                         // may be called again: it goes on where the last one ended
//   save_checkpoint(folder, info, schedule, model, training.states());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/checkpoint/state_updates.h"
#include "exec/checkpoint/states.h"
#include "exec/data/tokens.h"
#include "exec/memory/memory.h"
#include "exec/optimizer/adamw.h"
#include "exec/runtime/executor.h"
#include "shared/scenario/training_options.h"

namespace penstock::exec {

struct TrainingOptions {
  AdamHyper hyper;  // learning_rate: the highest
  int learning_rate_warmup_steps = 0;
  RateOptions rate;
  const TokenSource* tokens = nullptr;            // REQUIRED
  std::function<void(const StepReport&)> report;  // called once per step, in order, from a host lane
  ExecutorOptions executor;
};

class Training {
 public:
  /// `drive`: the memory of the schedule's NVMe tier, if it has one. REQUIRES: a schedule that check_schedule accepts.
  /// The first three must outlive this. Throws DoesNotFit.
  Training(const Schedule& schedule, const Model& model, Backend& backend, std::unique_ptr<Memory> drive = nullptr,
           Decay decay = Decay::all);

  /// `steps_done`: optimizer steps behind the states (a resume), 0 for fresh ones.
  void load(const StateSource& source, std::int64_t steps_done = 0);
  ExecutorResult run(const TrainingOptions& options);

  /// From now on what writes a layer's states (`updates`: of the schedule) waits for the gate of that layer among
  /// ExecutorOptions::gates.
  void gate_updates(const StateUpdates& updates);

  const Schedule& schedule() const { return schedule_; }
  const Model& model() const { return model_; }
  std::int64_t steps_done() const { return steps_done_; }
  StateReader states() const { return StateReader(schedule_, model_, memories_); }
  const TierMemories& memories() const { return memories_; }
  /// As allocated, by tier.
  const std::vector<std::int64_t>& arenas() const { return arena_bytes_; }

 private:
  const Schedule& schedule_;
  const Model& model_;
  Backend& backend_;
  std::vector<std::int64_t> arena_bytes_;
  TierMemories memories_;
  BoundSchedule bound_;
  std::int64_t steps_done_ = 0;
};

}  // namespace penstock::exec
