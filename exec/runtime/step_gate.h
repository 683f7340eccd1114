// Lets all lanes end after the same step. Every lane asks before it begins a step; once a stop is asked for, no
// step begins that no lane has begun before.
//
// Thread safety: all members may be called from any thread.
#pragma once

#include <algorithm>
#include <mutex>

namespace penstock::exec {

class StepGate {
 public:
  explicit StepGate(int steps) : steps_(steps) {}

  /// True if the caller's lane is to execute run step `step`.
  bool begin(int step) {
    const std::lock_guard lock(mutex_);
    if (step >= steps_) return false;
    begun_ = std::max(begun_, step + 1);
    return true;
  }
  /// Steps that have begun become the last ones.
  void stop() {
    const std::lock_guard lock(mutex_);
    if (steps_ > begun_) stopped_ = true;
    steps_ = std::min(steps_, begun_);
  }
  int steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

 private:
  mutable std::mutex mutex_;
  int steps_;
  int begun_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock::exec
