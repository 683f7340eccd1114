#include "exec/cuda/notifier.h"

#include <sys/prctl.h>

#include <chrono>
#include <exception>
#include <utility>

namespace penstock::exec {
namespace {

// Looks this often; a host op starts at most so much late. The thread sleeps in between and costs a few per cent of a
// core.
constexpr auto kInterval = std::chrono::microseconds(10);
constexpr int kLooksPerDeviceCheck = 5000;

}  // namespace

Notifier::Notifier(Board& board, std::function<void()> device_error)
    : board_(board),
      device_error_(std::move(device_error)),
      thread_([this](const std::stop_token& token) { watch(token); }) {}

Notifier::~Notifier() = default;

void Notifier::expect(int op, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  expected_.push_back({op, count});
}

void Notifier::watch(const std::stop_token& token) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  std::vector<Expected> waiting;
  for (int looks = 0; !token.stop_requested() && !board_.aborted(); ++looks) {
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
    if (looks % kLooksPerDeviceCheck == 0) try {
        device_error_();
      } catch (...) {
        board_.abort(std::current_exception());
      }
    std::this_thread::sleep_for(kInterval);
  }
  // What completed since the last look.
  const std::lock_guard lock(mutex_);
  for (const Expected& e : waiting) board_.notify(e.op);
  for (const Expected& e : expected_) board_.notify(e.op);
}

}  // namespace penstock::exec
