// The completion board: one monotonic 32-bit counter per op, the number of its completed executions in this run.
//
// Protocol. An op of run step s (from 0) may start once, for each edge from -> op, completed(from) >= s + 1 - distance.
// Who executes an op writes all its results, then stores s + 1 with release order; who waits loads with acquire order.
// Host threads use `publish` and `wait` (a futex: nobody burns a core). A device that waits on `words()` directly
// compares with "greater or equal, as a signed difference" and stores s + 1 itself, after a system-wide fence; its
// backend then calls `notify` for ops that host threads wait for.
//
// Abort. The first error wins. All counters jump to kReleased, so that every wait ends, on the host and on a device;
// `wait` then returns false and nobody executes anything any more. `abort_word()` lets kernels that write states ask
// too.
//
// Thread safety: all members may be called from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

namespace penstock::exec {

class Board {
 public:
  static constexpr std::uint32_t kReleased = 0x7fffffff;

  explicit Board(std::size_t ops);

  std::size_t ops() const { return ops_; }
  std::uint32_t completed(int op) const { return words_[index(op)].load(std::memory_order_acquire); }
  /// Blocks until `op` has completed `count` times. False if the run was aborted, whatever the count.
  bool wait(int op, std::uint32_t count) const;
  /// No effect after an abort.
  void publish(int op, std::uint32_t count);
  /// Wakes host threads that wait for `op`, whose counter the device has stored.
  void notify(int op) { words_[index(op)].notify_all(); }

  /// Keeps the first error and releases every wait. Later calls change nothing.
  void abort(std::exception_ptr error);
  bool aborted() const { return aborted_->load(std::memory_order_acquire) != 0; }
  /// Blocks until `abort`; for tests that hang on purpose.
  void wait_for_abort() const { aborted_->wait(0, std::memory_order_acquire); }
  /// Null if nothing failed.
  std::exception_ptr error() const;
  /// Changes whenever anything completes; what the watchdog looks at.
  std::uint64_t progress() const;

  /// Page-aligned memory of the counters and, behind them, of the abort flag: what a device registers.
  std::uint32_t* words() { return reinterpret_cast<std::uint32_t*>(words_.get()); }
  std::uint32_t* abort_word() { return words() + ops_; }
  std::size_t bytes() const { return bytes_; }

 private:
  using Word = std::atomic<std::uint32_t>;
  static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);
  struct Free {
    void operator()(Word* words) const;
  };

  static std::size_t index(int op) { return static_cast<std::size_t>(op); }

  std::size_t ops_;
  std::size_t bytes_;
  std::unique_ptr<Word[], Free> words_;
  Word* aborted_;
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace penstock::exec
