#include "exec/host/backend.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "exec/host/paced_ring.h"
#include "exec/host/templates.h"
#include "exec/memory/host_memory.h"
#include "exec/runtime/host_work.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/pinning.h"
#include "exec/runtime/served_lane.h"
#include "shared/pinned_ring.h"

namespace penstock::exec {
namespace {

// Small enough that a paced copy looks even to others, large enough that sleeping costs little.
constexpr std::int64_t kCopyChunk = 256 << 10;

void sleep_until_ns(std::int64_t due) {
  const timespec at{due / 1'000'000'000, due % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
  }
}

/// DRAM of a schedule of which so many bytes are played to be pinned.
class PartlyPinned : public HostMemory {
 public:
  PartlyPinned(std::int64_t bytes, std::int64_t pinned_bytes)
      : HostMemory(bytes, "dram"), direct_bytes_(penstock::directly_copied_bytes(bytes, pinned_bytes)) {}
  std::int64_t directly_copied_bytes() const override { return direct_bytes_; }

 private:
  std::int64_t direct_bytes_;
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
    if (kind == TierKind::hbm) return std::make_unique<HostMemory>(bytes, "hbm", free_for_arena(bytes, false));
    const std::int64_t limit = options_.pinned_limit_bytes;
    if (limit < 0 || limit >= bytes) return std::make_unique<HostMemory>(bytes, "dram", free_for_arena(bytes, false));
    pinned_ = {limit, pinning_refused_text(bytes, limit, kPinnedLimit, read_memory_limits())};
    return std::make_unique<PartlyPinned>(bytes, limit);
  }
  std::optional<Pinned> pinned() const override { return pinned_; }

  void start(const BoundSchedule& bound, Board& board, Recorder& recorder) override {
    drain();
    bound_ = &bound;
    for (std::size_t i = 0; i < bound.schedule->lanes.size(); ++i) {
      lanes_.push_back(nullptr);
      rings_.push_back(needs_ring(bound, static_cast<int>(i)) ? std::make_unique<PacedRing>(options_) : nullptr);
      if (!is_gpu(bound.schedule->lanes[i].kind)) continue;
      const auto execute = [this, ring = rings_.back().get()](const BoundOp& op, int step) { run(op, step, ring); };
      lanes_.back() = std::make_unique<ServedLane>(bound, board, recorder, execute);
    }
  }
  void enqueue(int op, int step) override {
    const int lane = bound_->ops[static_cast<std::size_t>(op)].op->lane;
    lanes_[static_cast<std::size_t>(lane)]->launch(op, step);
  }
  void drain() override {
    lanes_.clear();  // joins
    rings_.clear();
  }

 private:
  void run(const BoundOp& op, int step, PacedRing* ring) const {
    const auto* const copy = std::get_if<BoundCopy>(&op.work);
    if (const auto* binding = std::get_if<TemplateBinding>(&op.work))
      run_template_host(*binding);
    else if (copy == nullptr)
      run_host_work(op, *bound_, step);
    else if (!copy->goes_through_ring())
      paced_copy(copy->to.address(), copy->from.address(), copy->from.bytes,
                 link_rate(options_, copy->from_tier, copy->to_tier));
    else if (copy->to_tier == TierKind::hbm)
      ring->upload(copy->to.address(), copy->from.address(), copy->from.bytes);
    else
      ring->download(copy->to.address(), copy->from.address(), copy->from.bytes);
  }

  HostBackendOptions options_;
  std::optional<Pinned> pinned_;
  const BoundSchedule* bound_ = nullptr;
  std::vector<std::unique_ptr<PacedRing>> rings_;   // by lane; nullptr where no copy needs one
  std::vector<std::unique_ptr<ServedLane>> lanes_;  // by lane; nullptr for lanes that are not the GPU's
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
