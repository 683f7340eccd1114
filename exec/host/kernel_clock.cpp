#include "exec/host/kernel_clock.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace penstock::exec {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double KernelClock::lap() {
  const double now = cpu_seconds();
  return now - std::exchange(last_seconds_, now);
}

void KernelClock::start() {
  marks_.clear();
  ahead_.fill(0);
  last_seconds_ = cpu_seconds();
}

void KernelClock::after(KernelId kernel) {
  marks_.push_back({kernel, lap() + std::exchange(ahead_[static_cast<std::size_t>(kernel)], 0.0)});
}

void KernelClock::before(KernelId kernel) { ahead_[static_cast<std::size_t>(kernel)] += lap(); }

void KernelClock::also(KernelId kernel) {
  const auto last =
      std::find_if(marks_.rbegin(), marks_.rend(), [&](const KernelMark& mark) { return mark.kernel == kernel; });
  const double seconds = lap();
  if (last != marks_.rend()) last->seconds += seconds;
}

}  // namespace penstock::exec
