#include "exec/optimizer/thread_team.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "exec/optimizer/denormals.h"

namespace penstock::exec {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t)>;

/// A thread that runs one range at a time. One caller: start, then wait, then start again.
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

  /// `body` must live until wait has returned. Allocates nothing: what is started is always waited for.
  void start(const Body& body, std::int64_t begin, std::int64_t end) {
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      begin_ = begin;
      end_ = end;
    }
    changed_.notify_all();
  }

  /// What the body threw, or nullptr.
  std::exception_ptr wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return body_ == nullptr; });
    return std::exchange(failure_, nullptr);
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return body_ != nullptr || stopping_; });
      if (body_ == nullptr) return;
      lock.unlock();
      std::exception_ptr failure;
      try {
        const KeepDenormals keep;
        (*body_)(begin_, end_);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      body_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const Body* body_ = nullptr;  // set from start until it has ended
  std::int64_t begin_ = 0, end_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest exists
};

std::vector<std::unique_ptr<Helper>>& team() {
  thread_local std::vector<std::unique_ptr<Helper>> helpers;
  return helpers;
}

}  // namespace

void for_ranges(std::int64_t elements, std::int64_t granule, int threads, const Body& body) {
  const std::int64_t granules = (elements + granule - 1) / granule;
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(granules, 1));
  const auto begin_of = [&](std::int64_t part) { return std::min(elements, granules * part / parts * granule); };
  const auto helpers = static_cast<std::size_t>(parts - 1);
  while (team().size() < helpers) team().push_back(std::make_unique<Helper>());

  for (std::size_t i = 0; i < helpers; ++i) {
    const std::int64_t begin = begin_of(static_cast<std::int64_t>(i) + 1),
                       end = begin_of(static_cast<std::int64_t>(i) + 2);
    team()[i]->start(body, begin, end);
  }
  std::exception_ptr failure;
  try {
    const KeepDenormals keep;
    body(0, begin_of(1));
  } catch (...) {
    failure = std::current_exception();
  }
  for (std::size_t i = 0; i < helpers; ++i) {
    const std::exception_ptr thrown = team()[i]->wait();
    if (!failure) failure = thrown;
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace penstock::exec
