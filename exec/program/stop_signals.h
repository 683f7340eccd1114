// Ctrl-C and a polite kill, as a number of stops that the executor reads.
#pragma once

#include <signal.h>

#include <atomic>

namespace penstock::exec {

/// SIGINT and SIGTERM ask for a stop while this lives. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// How many stops were asked for since the program began.
  const std::atomic<int>& count() const;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

}  // namespace penstock::exec
