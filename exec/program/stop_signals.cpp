#include "exec/program/stop_signals.h"

#include <time.h>

#include <cstdint>

namespace penstock::exec {
namespace {

std::atomic<int> stops{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may touch it

std::atomic<std::int64_t> last_stop_ns{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// `timeout` and other wrappers pass on a signal that the terminal or they themselves have also sent to the group: what
/// follows faster than a hand is the same stop once more.
constexpr std::int64_t kSameStopNs = 100'000'000;

extern "C" void count_stop(int) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  const std::int64_t before = last_stop_ns.exchange(now_ns);
  if (stops.load() == 0 || now_ns - before >= kSameStopNs) stops.fetch_add(1);
}

}  // namespace

StopSignals::StopSignals() {
  struct sigaction action {};
  action.sa_handler = count_stop;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

const std::atomic<int>& StopSignals::count() const { return stops; }

}  // namespace penstock::exec
