#include "exec/cuda/stall_watch.h"

#include "exec/runtime/recorder.h"

namespace penstock::exec {
namespace {

constexpr std::chrono::milliseconds kPeriod{5};  // little is left to be read when a step is reported

}  // namespace

StallWatch::StallWatch(const LaneEvents& events, const Board& board, StallMeter& meter, int device)
    : events_(events), board_(board), meter_(meter), base_(events.anchor()), base_ns_(events.anchor_ns()) {
  meter_.begin(base_ns_);
  if (!meter_.lane().empty())
    thread_ = std::jthread([this, device](const std::stop_token& token) { watch(token, device); });
}

StallWatch::~StallWatch() = default;

bool StallWatch::has_metered(int step) {
  std::unique_lock lock(mutex_);
  is_asked_ = true;
  asks_.notify_one();
  changed_.wait_for(lock, kPatience, [&] { return ended_ > step; });
  return ended_ > step && is_known_[static_cast<std::size_t>(step % StallMeter::kKept)];
}

void StallWatch::watch(const std::stop_token& token, int device) {
  if (cudaSetDevice(device) != cudaSuccess) return;
  while (!token.stop_requested()) {
    advance();
    std::unique_lock lock(mutex_);
    asks_.wait_for(lock, token, kPeriod, [this] { return is_asked_; });
    is_asked_ = false;
  }
}

void StallWatch::advance() {
  const std::vector<int>& lane = meter_.lane();
  while (!board_.aborted()) {
    const int op = lane[next_];
    if (static_cast<int>(board_.completed(op)) <= step_) return;
    if (!add(op)) {
      begin_anew();
      continue;
    }
    if (op == meter_.last_backward()) step_ended();
    if (++next_ < lane.size()) continue;
    next_ = 0;
    ++step_;
  }
}

bool StallWatch::add(int op) {
  const cudaEvent_t start = events_.start(op, step_), end = events_.end(op, step_);
  if (base_ == nullptr) base_ = start;
  const auto from = elapsed_ns(base_, start), to = elapsed_ns(base_, end);
  // Launches are two steps ahead of what has ended at most: until then the events were not used again.
  const bool is_late = static_cast<int>(board_.completed(op)) > step_ + LaneEvents::kMeteredTurns - 2;
  if (!from || !to || is_late) return false;
  meter_.add(step_, op, base_ns_ + *from, base_ns_ + *to);
  if (op == meter_.last_backward()) {  // a base that is near: floats of milliseconds are exact over seconds only
    base_ = end;
    base_ns_ += *to;
  }
  return true;
}

void StallWatch::begin_anew() {
  step_ = static_cast<int>(board_.completed(meter_.lane().front()));
  next_ = 0;
  is_whole_ = false;
  base_ = nullptr;
  base_ns_ = now_ns();  // behind all that was metered
}

void StallWatch::step_ended() {
  const std::lock_guard lock(mutex_);
  is_known_[static_cast<std::size_t>(step_ % StallMeter::kKept)] = is_whole_;
  ended_ = step_ + 1;
  is_whole_ = true;
  changed_.notify_all();
}

std::optional<std::int64_t> StallWatch::elapsed_ns(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, from, to) != cudaSuccess) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace penstock::exec
