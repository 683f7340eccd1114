#include "exec/optimizer/thread_team.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/optimizer/denormals.h"

namespace penstock::exec {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t)>;

/// Ranges of one call per thread. Threads take the next range when they are done with one, so that a thread that woke
/// late or lost its core for a while holds up only its last range.
constexpr std::int64_t kRangesPerThread = 8;

/// One call: whoever has time runs its next range.
class Ranges {
 public:
  Ranges(std::int64_t elements, std::int64_t granule, std::int64_t count, const Body& body)
      : elements_(elements),
        granule_(granule),
        granules_((elements + granule - 1) / granule),
        count_(count),
        body_(body) {}

  /// Until none is left. Throws nothing.
  void run() {
    const KeepDenormals keep;
    for (std::int64_t range; (range = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) try {
        body_(begin_of(range), begin_of(range + 1));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (range < failed_) {
          failed_ = range;
          failure_ = std::current_exception();
        }
      }
  }
  /// The exception of the first range that threw. After every thread has ended.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::int64_t begin_of(std::int64_t range) const { return std::min(elements_, granules_ * range / count_ * granule_); }

  const std::int64_t elements_, granule_, granules_, count_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::int64_t failed_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure_;
};

/// A thread that helps with one call at a time. One caller: start, then wait, then start again.
class Helper {
 public:
  Helper() : thread_([this] { serve(); }) {}
  ~Helper() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// `ranges` must live until wait has returned. Allocates nothing: what is started is always waited for.
  void start(Ranges& ranges) {
    {
      const std::lock_guard lock(mutex_);
      ranges_ = &ranges;
    }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ranges_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ranges_ != nullptr || stopping_; });
      if (ranges_ == nullptr) return;
      lock.unlock();
      ranges_->run();
      lock.lock();
      ranges_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Ranges* ranges_ = nullptr;  // set from start until it has ended
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest exists
};

std::vector<std::unique_ptr<Helper>>& team() {
  thread_local std::vector<std::unique_ptr<Helper>> helpers;
  return helpers;
}

}  // namespace

void for_ranges(std::int64_t elements, std::int64_t granule, int threads, const Body& body) {
  const std::int64_t granules = std::max<std::int64_t>((elements + granule - 1) / granule, 1);
  const std::int64_t runners = std::clamp<std::int64_t>(threads, 1, granules);
  const auto helpers = static_cast<std::size_t>(runners - 1);
  while (team().size() < helpers) team().push_back(std::make_unique<Helper>());

  Ranges ranges(elements, granule, runners == 1 ? 1 : std::min(granules, runners * kRangesPerThread), body);
  for (std::size_t i = 0; i < helpers; ++i) team()[i]->start(ranges);
  ranges.run();
  for (std::size_t i = 0; i < helpers; ++i) team()[i]->wait();
  ranges.rethrow();
}

}  // namespace penstock::exec
