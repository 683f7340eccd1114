#include "exec/runtime/served_lane.h"

#include <sys/prctl.h>

#include <exception>
#include <utility>

namespace penstock::exec {

ServedLane::ServedLane(const BoundSchedule& bound, Board& board, Recorder& recorder, Execute execute)
    : bound_(bound), board_(board), recorder_(recorder), execute_(std::move(execute)), thread_([this] { serve(); }) {}

ServedLane::~ServedLane() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

void ServedLane::launch(int op, int step) {
  const std::lock_guard lock(mutex_);
  launches_.push_back({op, step});
  wake_.notify_one();
}

std::optional<ServedLane::Launch> ServedLane::next() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return closed_ || !launches_.empty(); });
  if (launches_.empty()) return std::nullopt;
  const Launch launch = launches_.front();
  launches_.pop_front();
  return launch;
}

void ServedLane::serve() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // paced copies sleep to the microsecond
  while (const std::optional<Launch> launch = next()) {
    try {
      execute(*launch);
    } catch (...) {
      board_.abort(std::current_exception());
    }
  }
}

void ServedLane::execute(const Launch& launch) {
  const BoundOp& op = bound_.ops[static_cast<std::size_t>(launch.op)];
  for (const Predecessor& p : op.predecessors)
    if (!board_.wait(p.op, static_cast<std::uint32_t>(launch.step + 1 - p.distance))) return;
  if (board_.aborted()) return;
  const std::int64_t start = now_ns();
  execute_(op, launch.step);
  const std::int64_t end = now_ns();
  recorder_.record(launch.step, launch.op, start, end);
  recorder_.meter().add(launch.step, launch.op, start, end);
  board_.publish(launch.op, static_cast<std::uint32_t>(launch.step + 1));
}

}  // namespace penstock::exec
