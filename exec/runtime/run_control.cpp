#include "exec/runtime/run_control.h"

#include <stdexcept>

#include "exec/runtime/board.h"
#include "exec/runtime/step_gate.h"

namespace penstock::exec {

int RunControl::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (gate_ == nullptr) return 0;
  gate_->stop();
  return gate_->steps();
}

void RunControl::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  error_ = std::make_exception_ptr(std::runtime_error(why));
  if (board_ != nullptr) board_->abort(error_);
}

RunControl::Attached::Attached(RunControl* control, StepGate& gate, Board& board) : control_(control) {
  if (control == nullptr) return;
  const std::lock_guard lock(control->mutex_);
  control->gate_ = &gate;
  control->board_ = &board;
  if (control->stopped_) gate.stop();
  if (control->error_) board.abort(control->error_);
}

RunControl::Attached::~Attached() {
  if (control_ == nullptr) return;
  const std::lock_guard lock(control_->mutex_);
  control_->gate_ = nullptr;
  control_->board_ = nullptr;
}

}  // namespace penstock::exec
