// The schedule: data written once by a policy, read by both halves. docs/schedule.md walks through one.
//
//   Tier    memory of one kind with a capacity.
//   Lane    executes its ops one at a time, in list order (the order of ids), step after step.
//   Buffer  a named byte range in one tier.
//   Value   what a buffer holds: tensor, layer, step version, micro-batch.
//   Access  an op reads or writes a range of a buffer and names the value that it expects or leaves there.
//   Op      one piece of work on one lane.
//   Edge    `to` starts after `from` has ended: in the same step (distance 0) or `from` in the step before (1).
//
// Invariants, proved by check_schedule (shared/ir/checker.h) and assumed by everything behind it:
//  1. ops[i].id == i, and ids are one topological order: every distance-0 edge has from < to. Executing the ops one
//     after the other in id order, step after step, is the meaning of the schedule; lanes and edges permit
//     concurrency that cannot be told from it.
//  2. The launch lane holds only waits. GPU ops (lanes gpu_compute and copy_*) are launched in id order by one
//     thread: a GPU op whose id is greater than a wait's starts only after that wait has ended.
//  3. Every step is the same list. `initial` says which values lie where before step 0; at the end of every step the
//     same places hold the same tensors, one version later where the step updates them.
//  4. An optimizer op belongs to the step whose gradients it reads; the forward of the next step waits for it
//     through distance-1 edges, so a final flush is nothing but waiting for the last ops.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shared/ir/values.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

enum class TierKind { hbm, dram, nvme };

struct Tier {
  TierKind kind = TierKind::hbm;
  int device = 0;
  std::int64_t capacity_bytes = 0;

  bool operator==(const Tier&) const = default;
};

enum class LaneKind {
  gpu_compute,
  copy_h2d,
  copy_d2h,
  copy_both,  // one engine for both directions
  host,       // a host worker: optimizer, accumulation, norm, input
  nvme_read,
  nvme_write,
  launch,  // the host thread that enqueues GPU work; holds only waits
};

inline bool is_gpu(LaneKind kind) {
  return kind == LaneKind::gpu_compute || kind == LaneKind::copy_h2d || kind == LaneKind::copy_d2h ||
         kind == LaneKind::copy_both;
}

struct Lane {
  std::string name;  // unique: "compute", "h2d", "d2h", "adam", "accumulate", "input", "launch"
  LaneKind kind = LaneKind::host;
  int device = 0;

  bool operator==(const Lane&) const = default;
};

struct Buffer {
  std::string name;  // unique
  int tier = 0;      // index into Schedule::tiers
  std::int64_t offset_bytes = 0;
  std::int64_t bytes = 0;

  bool operator==(const Buffer&) const = default;
};

/// `version` counts optimizer updates relative to the step: 0 = what this step's forward computes with, 1 = after this
/// step's update (next step calls it 0). Values that live within a step (activations, gradients, tokens, ...) have
/// version 0; one left over from the step before would be found as -1. micro_batch -1 = not of one micro-batch.
struct Value {
  TensorKind tensor = TensorKind::workspace;
  int layer = -1;
  int version = 0;
  int micro_batch = -1;

  bool operator==(const Value&) const = default;
};

struct Access {
  int buffer = 0;
  std::int64_t offset_bytes = 0;  // within the buffer
  std::int64_t bytes = 0;
  Value value;

  bool operator==(const Access&) const = default;
};

// --- work ---------------------------------------------------------------------------------------------------------

/// `count` transfers of `bytes` each.
struct Burst {
  std::int64_t bytes = 0;
  std::int64_t count = 1;
  bool operator==(const Burst&) const = default;
};
/// Copies reads[0] to writes[0] (same bytes), cut as `bursts` say; they sum to the access's bytes. On NVMe lanes: I/O.
/// `threads` copy within DRAM, on a host lane; elsewhere it is 1.
struct CopyWork {
  std::vector<Burst> bursts;
  int threads = 1;
  bool operator==(const CopyWork&) const = default;
};
/// Binds the template of `kind` to the ranges in reads and writes and runs one pass over the op's micro-batch. Which
/// range is what follows from the values' tensors: reading boundary of this layer = input, writing boundary of the next
/// = output, and so on (docs/schedule.md has the table). A gradient that the op writes and also reads is added to,
/// one that it only writes is overwritten.
struct TemplateWork {
  LayerKind kind = LayerKind::decoder;
  Pass pass = Pass::forward;
  Keep keep = Keep::input;
  bool operator==(const TemplateWork&) const = default;
};
/// AdamW on one layer: reads gradient, step_scalars and the states, writes the states, one version later, in place.
/// On a host lane with `threads` threads, or on a GPU lane.
struct OptimizerWork {
  std::int64_t elements = 0;
  int threads = 1;
  bool operator==(const OptimizerWork&) const = default;
};
/// Host sum: reads gradient_part (and gradient_sum, unless this is the first contribution), writes gradient_sum.
struct AccumulateWork {
  std::int64_t elements = 0;
  int threads = 1;
  bool operator==(const AccumulateWork&) const = default;
};
/// Reads gradient_sum (for layer 0 of a tied model also the head's), writes gradient (rounded; in place where the types
/// are the same) and, if it writes one, norm_partial. Host or GPU lane.
struct FinishGradientWork {
  std::int64_t elements = 0;
  int threads = 1;
  bool operator==(const FinishGradientWork&) const = default;
};
/// Reads the norm_partials of all layers (none: no clipping) and of packed rows trained_tokens (none count: the update
/// is skipped), writes step_scalars. Host or GPU lane.
struct StepScalarsWork {
  bool operator==(const StepScalarsWork&) const = default;
};
/// Host lane: the next step's tokens, and the other kInputTensors of packed rows.
struct InputWork {
  bool operator==(const InputWork&) const = default;
};
/// Host lane: hands loss, step_scalars and trained_tokens to whoever watches the run.
struct ReportWork {
  bool operator==(const ReportWork&) const = default;
};
/// Launch lane: blocks the launch thread until `op` has ended; distance as in Edge (1: `op` of the step before).
struct WaitWork {
  int op = 0;
  int distance = 0;
  bool operator==(const WaitWork&) const = default;
};
/// Host lane: a serial pass over memory that a system makes and ours does not need (scale, scan, re-flatten, zero):
/// costs DRAM traffic, changes nothing. `traffic_bytes` read + written.
struct HostPassWork {
  std::int64_t traffic_bytes = 0;
  int threads = 1;
  bool operator==(const HostPassWork&) const = default;
};

using Work = std::variant<CopyWork, TemplateWork, OptimizerWork, AccumulateWork, FinishGradientWork, StepScalarsWork,
                          InputWork, ReportWork, WaitWork, HostPassWork>;

/// The part of the step that an op belongs to; memory is reported per phase (docs/design.md, "Counting").
enum class Phase { forward, loss, backward, optimizer };

struct Op {
  int id = 0;
  std::string name;  // "forward 3 #0", for people
  int lane = 0;
  int layer = -1;
  int micro_batch = -1;
  Phase phase = Phase::forward;
  Work work;
  std::vector<Access> reads;
  std::vector<Access> writes;

  bool operator==(const Op&) const = default;
};

struct Edge {
  int from = 0;
  int to = 0;
  int distance = 0;  // 0 or 1

  bool operator==(const Edge&) const = default;
};

// --- numerics -----------------------------------------------------------------------------------------------------

enum class StateFormat {
  planes,           // 12 B/param: hi, lo, m, v; exact fp32 master
  master_and_copy,  // fp32 master + bf16 copy + m + v, as ZeRO
  bf16,             // no master: bf16 weights + m + v, as MegaTrain and ml_dataflow
};
enum class ElementType { bf16, fp32 };

inline std::int64_t element_bytes(ElementType type) { return type == ElementType::bf16 ? 2 : 4; }

/// Everything that decides the bits of a run besides model, seed and data. Two schedules with equal Numerics,
/// micro-batches, kind of rows and sequence length give the same bits.
struct Numerics {
  StateFormat states = StateFormat::planes;
  ElementType moments = ElementType::fp32;
  ElementType gradient_sum = ElementType::fp32;   // where micro-batches accumulate
  ElementType gradient_link = ElementType::bf16;  // what waits for the norm and what the optimizer reads
  bool sum_on_host = false;  // each micro-batch's gradient crosses the link as gradient_part (rounded to gradient_link)
  bool clip = true;          // exact global norm before any update
  Chunking chunking;

  bool operator==(const Numerics& other) const {
    return states == other.states && moments == other.moments && gradient_sum == other.gradient_sum &&
           gradient_link == other.gradient_link && sum_on_host == other.sum_on_host && clip == other.clip &&
           chunking.mlp_tokens == other.chunking.mlp_tokens && chunking.loss_tokens == other.chunking.loss_tokens;
  }
};

/// Sequences contribute to gradients in ascending order, the chunks of one from its last to its first, in which order
/// backward meets them. (It is its own inverse.)
constexpr int turn_of(int micro_batch, int chunks) {
  return micro_batch / chunks * chunks + chunks - 1 - micro_batch % chunks;
}

struct Schedule {
  std::string policy;  // for people; nothing reads it
  ModelConfig model;
  // Shape of one micro-batch; where sequences are cut, of one whole sequence, whose chunks are the micro-batches: the
  // first of them all those of the first sequence.
  BatchShape micro_batch;
  int micro_batches = 1;           // per step
  std::int64_t library_bytes = 0;  // LayoutOptions::library_bytes of every workspace
  Numerics numerics;
  std::vector<Tier> tiers;
  std::vector<Lane> lanes;
  std::vector<Buffer> buffers;
  std::vector<Access> initial;  // what lies where before step 0
  std::vector<Op> ops;
  std::vector<Edge> edges;

  BatchShape whole_step() const {
    BatchShape step = micro_batch;
    step.sequences *= micro_batches / chunks();
    step.chunk_tokens = 0;
    return step;
  }
  /// Per sequence, 1 if it is not cut. REQUIRES: it divides micro_batches, as check_structure proves.
  int chunks() const { return chunk_count(micro_batch); }
  /// What the ops of micro-batch `m` work on.
  BatchShape shape_of(int m) const { return chunk_of(micro_batch, m % chunks()); }
  /// When micro-batch `m` adds to gradients of weights, from 0; and which one adds at turn `m`.
  int turn(int m) const { return turn_of(m, chunks()); }
  std::int64_t tokens_per_step() const { return whole_step().tokens(); }
  LayoutOptions layout(Keep keep) const { return {keep, numerics.chunking, library_bytes}; }
};

}  // namespace penstock
