#include "exec/host/backend.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "exec/host/templates.h"
#include "exec/memory/host_memory.h"
#include "exec/runtime/host_work.h"

namespace penstock::exec {
namespace {

// Small enough that a paced copy looks even to others, large enough that sleeping costs little.
constexpr std::int64_t kCopyChunk = 256 << 10;

void sleep_until_ns(std::int64_t due) {
  const timespec at{due / 1'000'000'000, due % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

struct Launch {
  int op = 0;
  int step = 0;
};

/// What the launch thread has enqueued on one lane.
class LaunchQueue {
 public:
  void push(Launch launch) {
    const std::lock_guard lock(mutex_);
    launches_.push_back(launch);
    wake_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_one();
  }
  /// Blocks for the next one; nullopt once the queue is closed and empty.
  std::optional<Launch> pop() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return closed_ || !launches_.empty(); });
    if (launches_.empty()) return std::nullopt;
    const Launch launch = launches_.front();
    launches_.pop_front();
    return launch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Launch> launches_;
  bool closed_ = false;
};

class HostBackend : public Backend {
 public:
  explicit HostBackend(const HostBackendOptions& options) : options_(options) {}
  ~HostBackend() override { drain(); }

  std::string name() const override { return "host"; }
  bool is_host() const override { return true; }
  std::int64_t arena_limit_bytes() const override {
    return options_.hbm_limit_bytes > 0 ? options_.hbm_limit_bytes : Backend::arena_limit_bytes();
  }

  std::unique_ptr<Memory> allocate(TierKind kind, std::int64_t bytes) override {
    return std::make_unique<HostMemory>(bytes, kind == TierKind::hbm ? "hbm" : "dram");
  }

  void start(const BoundSchedule& bound, Board& board, Recorder& recorder) override {
    drain();
    bound_ = &bound;
    board_ = &board;
    recorder_ = &recorder;
    for (const Lane& lane : bound.schedule->lanes) {
      queues_.push_back(is_gpu(lane.kind) ? std::make_unique<LaunchQueue>() : nullptr);
      if (LaunchQueue* queue = queues_.back().get()) threads_.emplace_back([this, queue] { serve(*queue); });
    }
  }
  void enqueue(int op, int step) override {
    const int lane = bound_->ops[static_cast<std::size_t>(op)].op->lane;
    queues_[static_cast<std::size_t>(lane)]->push({op, step});
  }
  void drain() override {
    for (const auto& queue : queues_)
      if (queue) queue->close();
    threads_.clear();  // joins
    queues_.clear();
  }

 private:
  void serve(LaunchQueue& queue) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // paced copies sleep to the microsecond
    while (const std::optional<Launch> launch = queue.pop()) {
      try {
        execute(*launch);
      } catch (...) {
        board_->abort(std::current_exception());
      }
    }
  }
  void execute(const Launch& launch) {
    const BoundOp& op = bound_->ops[static_cast<std::size_t>(launch.op)];
    for (const Predecessor& p : op.predecessors)
      if (!board_->wait(p.op, static_cast<std::uint32_t>(launch.step + 1 - p.distance))) return;
    if (board_->aborted()) return;
    const std::int64_t start = now_ns();
    if (const auto* binding = std::get_if<TemplateBinding>(&op.work))
      run_template_host(*binding);
    else if (const auto* copy = std::get_if<BoundCopy>(&op.work))
      run_copy(*copy);
    else
      run_host_work(op, *bound_, launch.step);
    const std::int64_t end = now_ns();
    recorder_->record(launch.step, launch.op, start, end);
    recorder_->meter().add(launch.step, launch.op, start, end);
    board_->publish(launch.op, static_cast<std::uint32_t>(launch.step + 1));
  }
  void run_copy(const BoundCopy& copy) const {
    paced_copy(copy.to.address(), copy.from.address(), copy.from.bytes,
               link_rate(options_, copy.from_tier, copy.to_tier));
  }

  HostBackendOptions options_;
  const BoundSchedule* bound_ = nullptr;
  Board* board_ = nullptr;
  Recorder* recorder_ = nullptr;
  std::vector<std::unique_ptr<LaunchQueue>> queues_;  // by lane; nullptr for lanes that are not the GPU's
  std::vector<std::jthread> threads_;
};

}  // namespace

void paced_copy(std::byte* to, const std::byte* from, std::int64_t bytes, double bytes_per_second) {
  const std::int64_t start = now_ns();
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t chunk = std::min(kCopyChunk, bytes - done);
    std::memcpy(to + done, from + done, static_cast<std::size_t>(chunk));
    done += chunk;
    if (bytes_per_second <= 0) continue;
    const std::int64_t due = start + static_cast<std::int64_t>(static_cast<double>(done) / bytes_per_second * 1e9);
    if (due > now_ns()) sleep_until_ns(due);
  }
}

double link_rate(const HostBackendOptions& options, TierKind from, TierKind to) {
  if (from != TierKind::hbm && to == TierKind::hbm) return options.h2d_bytes_per_second;
  if (from == TierKind::hbm && to != TierKind::hbm) return options.d2h_bytes_per_second;
  return 0;
}

std::unique_ptr<Backend> make_host_backend(const HostBackendOptions& options) {
  return std::make_unique<HostBackend>(options);
}

}  // namespace penstock::exec
