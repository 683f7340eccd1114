// The passes of the host's optimizer lane, timed as a run's ops find the machine: one layer after another, the helping
// threads asleep in between, nothing in the caches.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/calibrate/stopwatch.h"
#include "exec/memory/arena.h"
#include "shared/machine/machine.h"
#include "shared/machine/profile.h"

namespace penstock::exec {

struct MeasuredPass {
  HostPassPoint point;
  double spread = 0;
};

class HostPasses {
 public:
  /// Layers take turns in a block of so many bytes, which should be far beyond the caches.
  explicit HostPasses(std::int64_t room_bytes);

  /// AdamW in every format, over layers of `elements` on `threads` threads. REQUIRES: elements * kBytes <= room_bytes.
  std::vector<MeasuredPass> adamw(std::int64_t elements, int threads);
  /// Sums and finished gradients in every type, likewise.
  std::vector<MeasuredPass> gradients(std::int64_t elements, int threads);

  static constexpr std::int64_t kBytes = 20;  // per element: three planes of fp32, four of bf16

 private:
  struct Layer;
  /// `prepare` is not timed.
  template <class Prepare, class Body>
  MeasuredPass timed(const std::string& name, std::int64_t elements, double bytes_per_element, int threads,
                     const Prepare& prepare, const Body& body);
  Layer next_layer(std::int64_t elements);

  Arena arena_;
  std::int64_t at_ = 0;  // of the next layer
};

/// Into the profile, with their spreads.
void keep(std::vector<MeasuredPass> passes, Profile& profile);

}  // namespace penstock::exec
