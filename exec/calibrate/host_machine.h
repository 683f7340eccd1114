// What the host backend's machine can do besides kernels: copies, DRAM, AdamW, signalling.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/calibrate/stopwatch.h"
#include "exec/host/backend.h"
#include "shared/machine/machine.h"

namespace penstock::exec {

/// Of what is worked through layer by layer, so that none is found in a cache.
constexpr std::int64_t kBeyondCaches = std::int64_t{96} << 20;

struct MeasuredRate {
  double per_second = 0;
  double spread = 0;
};

/// One paced copy of `bytes`, as a copy lane makes it (on a thread with fine timers).
Measured measure_copy(std::int64_t bytes, double throttle_bytes_per_second);
/// Bytes per second of each direction while both copy `bytes` at once.
struct DuplexRates {
  double h2d = 0, d2h = 0;
};
DuplexRates measure_duplex(std::int64_t bytes, double h2d_throttle, double d2h_throttle);

/// Bytes per second of a large copy through the ring of memory that is played to be pinned.
MeasuredRate measure_ring(bool upload, const HostBackendOptions& options);

/// Bytes read and written per second by `threads` threads that copy `bytes` each.
MeasuredRate measure_dram(int threads);

/// Parameters per second of AdamW on the planes layout, layer after layer of `elements` each, beyond the caches
/// together.
MeasuredRate measure_adamw(std::int64_t elements, int threads);

/// One op's end on one thread to the start of the next on another, through the completion board.
Measured measure_signal();

}  // namespace penstock::exec
