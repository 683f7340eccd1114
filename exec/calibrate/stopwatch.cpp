#include "exec/calibrate/stopwatch.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "exec/runtime/recorder.h"
#include "shared/median.h"

namespace penstock::exec {

Measured summarise(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  Measured measured;
  measured.seconds = median(seconds);
  if (measured.seconds > 0) measured.spread = (seconds[n - 1 - n / 4] - seconds[n / 4]) / measured.seconds;
  return measured;
}

Measured measure(const std::function<double()>& body, const Repeats& repeats) {
  body();  // page faults, cold caches, first use of a library
  std::vector<double> times;
  double total = 0;
  while (static_cast<int>(times.size()) < repeats.most && total < repeats.limit_seconds &&
         (static_cast<int>(times.size()) < repeats.least || total < repeats.enough_seconds)) {
    times.push_back(body());
    total += times.back();
  }
  return summarise(std::move(times));
}

Measured measure_call(const std::function<void()>& body, const Repeats& repeats) {
  return measure(
      [&body] {
        const std::int64_t start = now_ns();
        body();
        return static_cast<double>(now_ns() - start) * 1e-9;
      },
      repeats);
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace penstock::exec
