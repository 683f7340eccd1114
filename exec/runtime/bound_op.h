// Ops bound to memory: what `bind` (exec/runtime/bind.h) makes of a schedule, once, before the run, and what both
// backends and the host lanes execute. Pointers are host addresses for DRAM and the backend's for HBM; copies hold
// ranges, since a drive has no address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "exec/data/step_rows.h"
#include "exec/memory/memory.h"
#include "exec/optimizer/adamw.h"
#include "exec/runtime/binding.h"
#include "exec/runtime/stall_meter.h"
#include "shared/ir/schedule.h"

namespace penstock::exec {

struct BoundCopy {
  MemoryRange from, to;  // of the same bytes
  TierKind from_tier = TierKind::dram, to_tier = TierKind::hbm;
  std::vector<Burst> bursts;
  int threads = 1;

  /// Of a GPU lane: is the host's end beyond what copies reach directly?
  bool goes_through_ring() const {
    if (from_tier == to_tier) return false;
    const MemoryRange& host = from_tier == TierKind::hbm ? to : from;
    return host.offset + host.bytes > host.memory->directly_copied_bytes();
  }
};
struct BoundOptimizer {
  OptimizerStates states;
  const void* gradient = nullptr;
  ElementType gradient_type = ElementType::bf16;
  std::int64_t elements = 0;
  const StepScalars* scalars = nullptr;
  int threads = 1;
  UndecayedRanges undecayed;
};
struct BoundAccumulate {
  const void* part = nullptr;
  ElementType part_type = ElementType::bf16;
  void* sum = nullptr;
  ElementType sum_type = ElementType::fp32;
  bool first = false;
  std::int64_t elements = 0;
  int threads = 1;
};
struct BoundFinish {
  const void* sum = nullptr;
  ElementType sum_type = ElementType::fp32;
  const void* tied = nullptr;  // the projection's part of the head's gradient, if layer 0 of a tied model
  void* out = nullptr;
  ElementType out_type = ElementType::bf16;
  std::int64_t elements = 0;
  int threads = 1;
  double* norm_partial = nullptr;  // nullptr: nobody asks
};
struct BoundScalars {
  std::vector<const double*> partials;     // in layer order
  const double* trained_tokens = nullptr;  // of packed rows: 0 of them, no update
  StepScalars* out = nullptr;
};
struct BoundInput {
  StepRows rows;
  double* trained_tokens = nullptr;  // of packed rows: how many labels are none of kIgnoredLabel
  BatchShape batch;                  // the whole step
  std::int64_t vocabulary = 0;       // ids lie below it
};
struct BoundReport {
  const double* losses = nullptr;  // [micro_batches, loss_numbers], nullptr if the op reads none
  const StepScalars* scalars = nullptr;
  const double* trained_tokens = nullptr;  // nullptr: every token is trained on
};
struct BoundHostPass {
  std::int64_t traffic_bytes = 0;
  int threads = 1;
};
struct BoundWait {
  int op = 0;
  int distance = 0;
};

using BoundWork = std::variant<BoundCopy, TemplateBinding, BoundOptimizer, BoundAccumulate, BoundFinish, BoundScalars,
                               BoundInput, BoundReport, BoundWait, BoundHostPass>;

/// An edge as its end sees it. Edges within one lane are left out where list order implies them.
struct Predecessor {
  int op = 0;
  int distance = 0;
  bool on_gpu = false;  // `op` runs on a GPU lane: a stream event serves; else a host thread publishes it
};

struct BoundOp {
  const Op* op = nullptr;
  LaneKind lane_kind = LaneKind::host;
  std::vector<Predecessor> predecessors;
  bool host_waits = false;  // a host lane or the launch thread waits for it: its completion must wake them
  bool gpu_waits = false;   // an op of another GPU lane waits for it
  BoundWork work;
};

/// What one step reports (ReportWork).
struct StepReport {
  std::int64_t step = 0;  // number of the optimizer step, from 1, resumed steps counted
  double loss = 0;        // mean over the step's tokens that are trained on, natural log; 0 if none is
  // Of a model that asks for it, mean over the micro-batches, without its factor: loss + factor * balance_loss is what
  // the gradients are of.
  std::optional<double> balance_loss;
  std::int64_t trained_tokens = 0;
  double gradient_norm = 0;  // before clipping; 0 without clipping
  double learning_rate = 0;
  Stalls stalls;           // not known where the step is reported before its last backward op has ended
  bool skipped = false;    // the norm was not finite, or no token is trained on: nothing was updated
  std::int64_t at_ns = 0;  // steady clock
};

/// What the ops of a step ask besides memory. Called from several threads; `step` is the run step, from 0.
struct StepSource {
  std::function<AdamHyper(int step)> hyper;      // with the learning rate of that step
  std::function<std::int64_t(int step)> number;  // 1 for the first step ever, beyond resumes
  std::function<void(int step, const StepRows& rows)> fill_rows;
  std::function<void(const StepReport&)> report;  // may be empty
};

struct BoundSchedule {
  const Schedule* schedule = nullptr;
  const Model* model = nullptr;
  std::vector<BoundOp> ops;
  int gates = 0;  // predecessors that are no op but one of so many gates, numbered behind all ops (update_gates.h)
  StepSource source;
};

/// Is it a GPU lane with a copy that goes through a ring?
inline bool needs_ring(const BoundSchedule& bound, int lane) {
  if (!is_gpu(bound.schedule->lanes[static_cast<std::size_t>(lane)].kind)) return false;
  for (const BoundOp& op : bound.ops)
    if (const auto* copy = std::get_if<BoundCopy>(&op.work); copy != nullptr && op.op->lane == lane)
      if (copy->goes_through_ring()) return true;
  return false;
}

}  // namespace penstock::exec
