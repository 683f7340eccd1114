// Times the kernels of one template op on the calling thread, by its CPU clock: what the work costs a core, whoever
// else uses the machine. Templates tell it what they did since they last told it something.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/runtime/kernel_mark.h"

namespace penstock::exec {

class KernelClock {
 public:
  /// Forgets everything; time counts from here.
  void start();
  /// The kernel has been executed once. Chunks in ascending order.
  void after(KernelId kernel);
  /// What its next execution, or its last one, needed besides: weights widened for all chunks, a gradient handed over.
  void before(KernelId kernel);
  void also(KernelId kernel);

  const std::vector<KernelMark>& marks() const { return marks_; }

 private:
  double lap();

  double last_seconds_ = 0;
  std::array<double, kKernelNames.size()> ahead_{};
  std::vector<KernelMark> marks_;
};

/// Where nobody listens.
inline void after(KernelClock* clock, KernelId kernel) {
  if (clock != nullptr) clock->after(kernel);
}
inline void before(KernelClock* clock, KernelId kernel) {
  if (clock != nullptr) clock->before(kernel);
}
inline void also(KernelClock* clock, KernelId kernel) {
  if (clock != nullptr) clock->also(kernel);
}

}  // namespace penstock::exec
