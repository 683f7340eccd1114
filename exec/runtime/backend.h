// The seam between the executor and whatever stands for the GPU: `host` (threads, exec/host/backend.h) or `cuda`.
//
// Order of calls: allocate, then start, then enqueue for every GPU op of every step in id order from one thread, then
// drain. After drain, start may be called again for another run over the same memory.
//
// Duties of a backend for each enqueued op:
//  1. it starts after everything enqueued before it on the same lane, and after its predecessors: for step s, wait
//     until completed(from) >= s + 1 - distance (nothing to wait for where that is 0);
//  2. its results are visible to the host and to other lanes before the board's counter of the op says s + 1;
//     if BoundOp::host_waits, host threads that wait for it are woken (Board::publish, or Board::notify);
//  3. start and end go to the recorder (at the latest by drain), in nanoseconds of the steady clock, and those of the
//     compute lane, which may count from another origin, to its meter;
//  4. an error goes to Board::abort, never out of a thread of its own. After an abort it executes nothing
//     more that it has not started; drain still returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "exec/memory/memory.h"
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

  /// Memory of its HBM, or of DRAM that it copies from and to, zeroed and touched; `bytes` may be 0. It must not outlive
  /// the backend. REQUIRES: hbm or dram. Throws DoesNotFit.
  virtual std::unique_ptr<Memory> allocate(TierKind kind, std::int64_t bytes) = 0;

  /// Of the DRAM that was allocated, where less than all could be pinned: how much can be, and for people why no more,
  /// and what to set.
  struct Pinned {
    std::int64_t bytes = 0;
    std::string why;
  };
  virtual std::optional<Pinned> pinned() const { return std::nullopt; }

  /// All three stay valid until drain has returned.
  virtual void start(const BoundSchedule& bound, Board& board, Recorder& recorder) = 0;
  /// Asynchronous; may block while queues are full. REQUIRES: a GPU op.
  virtual void enqueue(int op, int step) = 0;
  /// Whether the recorder's meter has all of the compute lane up to the step's last backward op. Called by a host lane:
  /// waits for milliseconds at most, and for nothing that waits for the lane. REQUIRES: that op has completed.
  virtual bool has_metered(int /*step*/) { return true; }
  /// Blocks until all that was enqueued has completed or, after an abort, will never run.
  virtual void drain() = 0;
};

}  // namespace penstock::exec
