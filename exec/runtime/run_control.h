// Ends a run from outside it.
//
// Thread safety: all members may be called from any thread, before a run, during it and after it; one run at a time.
#pragma once

#include <exception>
#include <mutex>
#include <string>

namespace penstock::exec {

class Board;
class StepGate;

class RunControl {
 public:
  /// Steps that have begun become the last ones; a run that has not begun yet will have none. Returns how many those
  /// are, 0 without a run.
  int stop();
  /// Ends the run at once with a std::runtime_error of this text. Its states are then of no step.
  void abort(const std::string& why);

  /// The executor's: a run's parts, while one of these lives.
  class Attached {
   public:
    /// `control` may be nullptr.
    Attached(RunControl* control, StepGate& gate, Board& board);
    ~Attached();
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    RunControl* control_;
  };

 private:
  std::mutex mutex_;
  bool stopped_ = false;
  std::exception_ptr error_;
  StepGate* gate_ = nullptr;
  Board* board_ = nullptr;
};

}  // namespace penstock::exec
