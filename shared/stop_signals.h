// Wishes to end that come from outside, while something goes on that is not to be lost: Ctrl-C (SIGINT), a polite kill
// (SIGTERM), a closed terminal (SIGHUP; not where it was ignored before, as under nohup); and what the system repeats,
// so that it is a first wish and never a further one: a reader that has gone (SIGPIPE, at every write), CPU time used
// up (SIGXCPU, every second). Where there are neither threads nor signals (WebAssembly) CMake takes stop_signals_none.cpp,
// which hears nothing.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace penstock {

/// One at a time; signals do what they did before once it is gone. What follows faster than a hand is the same wish
/// once more: `timeout` and other wrappers pass on a signal that the terminal or they themselves have also sent to the
/// group.
class StopSignals {
 public:
  /// Called for the first wish with 1, for the second with 2, ..., one after the other, on a thread of its own, so that
  /// it may do what no signal handler may. `cause`: what people call the signal.
  using Heard = std::function<void(int wishes, std::string_view cause)>;

  explicit StopSignals(Heard heard);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Once it is gone nothing is left but the end of the process: signals do nothing then.
  void ignore_afterwards();

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace penstock
