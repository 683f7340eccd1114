#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/store/io_queue.h"

namespace penstock::exec {
namespace {

/// Blocks whoever takes from it while it is empty.
template <typename T>
class Channel {
 public:
  void put(const T& item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
    changed_.notify_one();
  }
  /// nullopt once it is closed and empty.
  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    const T item = items_.front();
    items_.pop_front();
    return item;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};

class ThreadQueue : public IoQueue {
 public:
  explicit ThreadQueue(int depth) {
    for (int i = 0; i < depth; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadQueue() override { asked_.close(); }  // the threads join

  std::string_view name() const override { return "threads"; }
  int depth() const override { return static_cast<int>(threads_.size()); }
  void submit(const Transfer& transfer) override { asked_.put(transfer); }
  Transferred wait() override { return *done_.take(); }
  bool pin(std::span<const std::span<std::byte>>) override { return false; }

 private:
  void serve() {
    while (const std::optional<Transfer> t = asked_.take()) {
      const auto bytes = static_cast<std::size_t>(t->bytes);
      const ssize_t moved =
          t->is_write ? ::pwrite(t->file, t->memory, bytes, t->offset) : ::pread(t->file, t->memory, bytes, t->offset);
      done_.put({t->tag, moved < 0 ? -errno : moved});
    }
  }

  Channel<Transfer> asked_;
  Channel<Transferred> done_;
  std::vector<std::jthread> threads_;  // last: they use the others
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(int depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace penstock::exec
