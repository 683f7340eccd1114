// Host memory that a run takes beside its arenas, as far as it can be told before anything is planned. Data is not
// among it: it has been read by then, and what is read is no longer free.
#pragma once

#include <cstdint>
#include <string>

#include "shared/ir/schedule.h"

namespace penstock::exec {

struct RunShape {
  bool on_host = false;  // the host backend's kernels need memory of their own
  BatchShape micro_batch;
  Chunking chunking;
  int micro_batches = 1;
  int steps = 1;
  bool writes_times = false;  // a timeline or a comparison is made of the recorded times
  int cores = 1;
  std::int64_t drive_bytes = 0;  // what the run may keep on NVMe at most
};

/// Upper estimates; run_memory.cpp says of what.
struct BesideArenas {
  std::int64_t program_bytes = 0;
  std::int64_t kernel_bytes = 0;
  std::int64_t loading_bytes = 0;  // also while saving and resuming
  std::int64_t times_bytes = 0;
  std::int64_t drive_bytes = 0;  // for what is on NVMe: checksums, and pieces of it while loading and saving
  double arena_share = 0;        // of the arenas in host memory

  std::int64_t total(std::int64_t arena_bytes) const;
  /// The largest arenas for which arenas and total(arenas) are at most `usable_bytes`; never negative.
  std::int64_t largest_arenas(std::int64_t usable_bytes) const;
};

BesideArenas beside_arenas(const Model& model, const RunShape& shape, std::int64_t usable_bytes);

/// Scratch of the host backend's kernels for one micro-batch.
std::int64_t host_kernel_bytes(const Model& model, BatchShape micro_batch, const Chunking& chunking);

/// Steps of `steps` whose ops' times are recorded, so that they take no more than a small part of the memory.
int recorded_steps(const Schedule& schedule, int steps, bool on_host, std::int64_t usable_bytes);

/// Gives back what was used and freed, so that arenas can have it, and forgets the peak so far.
void begin_resident_peak();
/// The most that this process has held in memory since then, arenas included and pages of files left out, which the
/// system can drop; -1 where it does not say.
std::int64_t peak_resident_bytes();

}  // namespace penstock::exec
