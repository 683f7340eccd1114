// A long command that gives what there is so far when it is asked to end.
#pragma once

#include <atomic>
#include <string>

#include "shared/stop_signals.h"

namespace penstock::sim {

/// The first wish to end (shared/stop_signals.h) sets `asked` and says what follows; a second one ends the program at
/// once with exit code 1.
class GentleStop {
 public:
  /// `what_follows`: "the best so far follows".
  explicit GentleStop(std::string what_follows);

  const std::atomic<bool>& asked() const { return asked_; }

 private:
  void heard(int wishes, std::string_view cause);

  std::string what_follows_;
  std::atomic<bool> asked_{false};
  StopSignals signals_;  // last: it calls `heard`
};

}  // namespace penstock::sim
