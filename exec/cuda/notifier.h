// Wakes host threads that wait for GPU ops. The device stores the board's counter itself; a futex does not see that, so
// one thread looks at the few counters that somebody waits for.
//
// A second thread notices a device that has failed. It asks the driver, and the driver may make it wait for the launch
// thread, which may stand in a full queue until a host lane has been woken: so the two must not be one.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/runtime/board.h"

namespace penstock::exec {

class Notifier {
 public:
  /// `device_error`: asked now and then; throws if the device has failed, which aborts the run.
  Notifier(Board& board, std::function<void()> device_error);
  ~Notifier();

  /// Somebody will wait until completed(op) >= count.
  void expect(int op, std::uint32_t count);

 private:
  struct Expected {
    int op;
    std::uint32_t count;
  };
  void watch(const std::stop_token& token);
  void look_after_device(const std::stop_token& token);

  Board& board_;
  std::function<void()> device_error_;
  std::mutex mutex_;
  std::vector<Expected> expected_;
  std::jthread waker_, device_watch_;
};

}  // namespace penstock::exec
