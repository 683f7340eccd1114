#include "exec/cuda/notifier.h"

#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <utility>

namespace penstock::exec {
namespace {

// Looks this often; a host op starts at most so much late. The thread sleeps in between and costs a few per cent of a
// core.
constexpr auto kInterval = std::chrono::microseconds(10);
constexpr auto kDeviceInterval = std::chrono::milliseconds(100);

}  // namespace

Notifier::Notifier(Board& board, std::function<void()> device_error)
    : board_(board),
      device_error_(std::move(device_error)),
      waker_([this](const std::stop_token& token) { watch(token); }),
      device_watch_([this](const std::stop_token& token) { look_after_device(token); }) {}

Notifier::~Notifier() = default;

void Notifier::expect(int op, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  expected_.push_back({op, count});
}

void Notifier::watch(const std::stop_token& token) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  std::vector<Expected> waiting;
  while (!token.stop_requested() && !board_.aborted()) {
    {
      const std::lock_guard lock(mutex_);
      waiting.insert(waiting.end(), expected_.begin(), expected_.end());
      expected_.clear();
    }
    std::erase_if(waiting, [this](const Expected& e) {
      if (board_.completed(e.op) < e.count) return false;
      board_.notify(e.op);
      return true;
    });
    std::this_thread::sleep_for(kInterval);
  }
  // What completed since the last look.
  const std::lock_guard lock(mutex_);
  for (const Expected& e : waiting) board_.notify(e.op);
  for (const Expected& e : expected_) board_.notify(e.op);
}

void Notifier::look_after_device(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, token, kDeviceInterval, [] { return false; }) && !token.stop_requested()) try {
      device_error_();
    } catch (...) {
      return board_.abort(std::current_exception());
    }
}

}  // namespace penstock::exec
