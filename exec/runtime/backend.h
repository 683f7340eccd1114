// The seam between the executor and whatever stands for the GPU: `host` (threads, exec/host/backend.h) or `cuda`.
//
// Order of calls: allocate, then write (load), then start, then enqueue for every GPU op of every step in id order from
// one thread, then drain, then read (save). After drain, start may be called again for another run over the same
// memory.
//
// Duties of a backend for each enqueued op:
//  1. it starts after everything enqueued before it on the same lane, and after its predecessors: for step s, wait
//     until completed(from) >= s + 1 - distance (nothing to wait for where that is 0);
//  2. its results are visible to the host and to other lanes before the board's counter of the op says s + 1;
//     if BoundOp::host_waits, host threads that wait for it are woken (Board::publish, or Board::notify);
//  3. start and end go to the recorder (at the latest by drain), in nanoseconds of the steady clock;
//  4. an error goes to Board::abort, never out of a thread of its own. After an abort it executes nothing
//     more that it has not started; drain still returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime/board.h"
#include "exec/runtime/bound_op.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual bool is_host() const = 0;
  /// The most that the HBM arena may have: limit less what the backend itself takes. Known before `allocate`.
  virtual std::int64_t arena_limit_bytes() const { return std::numeric_limits<std::int64_t>::max(); }

  /// Of the GPU's memory, what is in use beside the arenas: by context, library modules, and other programs. 0 where
  /// there is no GPU.
  virtual std::int64_t context_bytes() const { return 0; }

  /// One arena per tier, zeroed and touched; `bytes[i]` belongs to tiers[i] and may be 0. Throws DoesNotFit.
  virtual void allocate(const std::vector<Tier>& tiers, const std::vector<std::int64_t>& bytes) = 0;
  /// Address of a tier's arena: for DRAM and NVMe one that host threads can use, for HBM the device's.
  virtual std::byte* arena(int tier) = 0;
  /// Synchronous; not during a run. Several threads may call at once, for ranges that do not overlap.
  virtual void write(int tier, std::int64_t offset, std::span<const std::byte> from) = 0;
  virtual void read(int tier, std::int64_t offset, std::span<std::byte> to) = 0;

  /// All three stay valid until drain has returned.
  virtual void start(const BoundSchedule& program, Board& board, Recorder& recorder) = 0;
  /// Asynchronous; may block while queues are full. REQUIRES: a GPU op.
  virtual void enqueue(int op, int step) = 0;
  /// Blocks until all that was enqueued has completed or, after an abort, will never run.
  virtual void drain() = 0;
};

}  // namespace penstock::exec
