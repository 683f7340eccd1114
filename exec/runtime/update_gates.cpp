#include "exec/runtime/update_gates.h"

#include "exec/runtime/recorder.h"

namespace penstock::exec {
namespace {

// More executions than any run has, and fewer than an abort's.
constexpr std::uint32_t kOpen = Board::kReleased - 1;

}  // namespace

void UpdateGates::close() {
  const std::lock_guard lock(mutex_);
  open_.assign(open_.size(), false);
  waited_ns_ = 0;
}

void UpdateGates::open(int gate) {
  const std::lock_guard lock(mutex_);
  open_[static_cast<std::size_t>(gate)] = true;
  publish(static_cast<std::size_t>(gate));
}

void UpdateGates::open_all() {
  const std::lock_guard lock(mutex_);
  for (std::size_t gate = 0; gate < open_.size(); ++gate) {
    open_[gate] = true;
    publish(gate);
  }
}

void UpdateGates::publish(std::size_t gate) const {
  // Evaluations have no gates.
  if (board_ != nullptr && first_ + gate < board_->ops()) board_->publish(static_cast<int>(first_ + gate), kOpen);
}

double UpdateGates::waited_seconds() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(waited_ns_) * 1e-9;
}

UpdateGates::Attached::Attached(UpdateGates* gates, Board& board, std::size_t first) : gates_(gates) {
  if (gates == nullptr) {
    for (std::size_t gate = first; gate < board.ops(); ++gate) board.publish(static_cast<int>(gate), kOpen);
    return;
  }
  const std::lock_guard lock(gates->mutex_);
  gates->board_ = &board;
  gates->first_ = first;
  for (std::size_t gate = 0; gate < gates->open_.size(); ++gate)
    if (gates->open_[gate]) gates->publish(gate);
}

UpdateGates::Attached::~Attached() {
  if (gates_ == nullptr) return;
  const std::lock_guard lock(gates_->mutex_);
  gates_->board_ = nullptr;
}

UpdateGates::Waiting::Waiting(UpdateGates* gates) : gates_(gates) {
  if (gates == nullptr) return;
  const std::lock_guard lock(gates->mutex_);
  if (gates->waiting_++ == 0) gates->since_ns_ = now_ns();
}

UpdateGates::Waiting::~Waiting() {
  if (gates_ == nullptr) return;
  const std::lock_guard lock(gates_->mutex_);
  if (--gates_->waiting_ == 0) gates_->waited_ns_ += now_ns() - gates_->since_ns_;
}

}  // namespace penstock::exec
