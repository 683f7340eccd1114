#include "exec/cuda/backend.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "exec/cuda/attention.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/error.h"
#include "exec/cuda/lane_events.h"
#include "exec/cuda/notifier.h"
#include "exec/cuda/optimizer.h"
#include "exec/cuda/pinned_ring.h"
#include "exec/cuda/stall_watch.h"
#include "exec/cuda/stream_memory.h"
#include "exec/cuda/templates.h"
#include "exec/memory/host_memory.h"
#include "exec/optimizer/adamw.h"
#include "exec/runtime/limits.h"
#include "exec/runtime/pinning.h"
#include "exec/runtime/served_lane.h"
#include "shared/error.h"
#include "shared/pinned_ring.h"

namespace penstock::exec {
namespace {

// cuBLASLt and cuDNN load kernels at first use; the rehearsal before a run brings them all in.
constexpr std::int64_t kLibraryReserveBytes = std::int64_t{256} << 20;
// Ops of a lane that are launched and have not ended, where there are rings: some hundred entries of a queue.
constexpr std::size_t kLaunchedAhead = 16;

/// HBM of a schedule.
class TierOnDevice : public Memory {
 public:
  /// Adds itself to `allocated` as long as it lives.
  TierOnDevice(std::int64_t bytes, std::int64_t& allocated) : memory_(bytes), allocated_(allocated) {
    allocated_ += bytes;
    if (bytes > 0) PENSTOCK_CUDA(cudaMemset(memory_.data(), 0, static_cast<std::size_t>(bytes)));
  }
  ~TierOnDevice() override { allocated_ -= memory_.bytes(); }

  std::int64_t bytes() const override { return memory_.bytes(); }
  std::byte* address() const override { return memory_.data(); }
  void read(std::int64_t offset, std::span<std::byte> to) override {
    if (!to.empty()) PENSTOCK_CUDA(cudaMemcpy(to.data(), address() + offset, to.size(), cudaMemcpyDefault));
  }
  void write(std::int64_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) PENSTOCK_CUDA(cudaMemcpy(address() + offset, from.data(), from.size(), cudaMemcpyDefault));
  }

 private:
  DeviceMemory memory_;
  std::int64_t& allocated_;
};

/// DRAM of a schedule: pinned, or its beginning and a ring for the rest where the system or `limit` (-1: none) lets no
/// more be.
class PinnedMemory : public HostMemory {
 public:
  PinnedMemory(std::int64_t bytes, std::int64_t limit)
      : HostMemory(bytes, "dram", free_for_arena(bytes, true)), direct_bytes_(bytes), limit_(limit) {
    if (bytes == 0) return;
    try {
      registration_ = pin(bytes);
    } catch (const std::runtime_error& error) {
      pin_a_part(error.what());
    }
  }

  std::int64_t directly_copied_bytes() const override { return direct_bytes_; }
  /// Where less than all could be pinned.
  const std::optional<Backend::Pinned>& pinned() const { return pinned_; }

 private:
  void pin_a_part(const std::string& reason) {
    const std::int64_t pinnable = largest_pinnable(bytes(), [this](std::int64_t part) {
      try {
        return pin(part), true;
      } catch (const std::runtime_error&) {
        return false;
      }
    });
    pinned_ = {pinnable, pinning_refused_text(bytes(), pinnable, reason, read_memory_limits())};
    if (pinnable < kRingsBytes) throw DoesNotFit(pinned_->why);
    direct_bytes_ = penstock::directly_copied_bytes(bytes(), pinnable);
    if (direct_bytes_ > 0) registration_ = pin(direct_bytes_);
  }
  Registration pin(std::int64_t bytes) const {
    if (limit_ >= 0 && bytes > limit_) throw std::runtime_error(kPinnedLimit);
    return Registration(address(), static_cast<std::size_t>(bytes));
  }

  std::int64_t direct_bytes_;
  std::int64_t limit_;
  std::optional<Backend::Pinned> pinned_;
  Registration registration_;  // released before the memory is
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options) : options_(options), memory_ops_(prepare(options)) {
    templates_ = std::make_unique<CudaTemplates>(options.deterministic);
    const auto [taken, limit] = room();
    arena_limit_bytes_ = limit - taken - kLibraryReserveBytes;
    if (arena_limit_bytes_ <= 0)
      throw DoesNotFit(
          fmt::format("the limit of {} bytes on the device's memory is below what context and library modules "
                      "take ({} bytes) and the {} bytes reserved for kernels loaded later",
                      limit, taken, kLibraryReserveBytes));
  }
  ~CudaBackend() override { drain(); }

  std::string name() const override { return "cuda"; }
  bool is_host() const override { return false; }
  std::int64_t arena_limit_bytes() const override { return arena_limit_bytes_; }
  std::int64_t context_bytes() const override { return room().taken - device_bytes_; }

  std::unique_ptr<Memory> allocate(TierKind kind, std::int64_t bytes) override {
    if (kind == TierKind::hbm) return allocate_device(bytes);
    auto memory = std::make_unique<PinnedMemory>(bytes, options_.pinned_limit_bytes);
    if (memory->pinned()) pinned_ = memory->pinned();
    return memory;
  }
  std::optional<Pinned> pinned() const override { return pinned_; }

  void start(const BoundSchedule& bound, Board& board, Recorder& recorder) override {
    drain();
    bound_ = &bound;
    board_ = &board;
    recorder_ = &recorder;
    steps_ = 0;
    PENSTOCK_CUDA(cudaSetDevice(options_.device));
    board_memory_ = Registration(board.words(), board.bytes());
    void* words = nullptr;
    PENSTOCK_CUDA(cudaHostGetDevicePointer(&words, board.words(), 0));
    words_ = reinterpret_cast<CUdeviceptr>(words);
    require_reachable();
    make_lanes();
    events_ = std::make_unique<LaneEvents>(bound, recorder.steps(), recorder.meter());
    rehearse();
    events_->anchor(first_stream());
    stalls_ = std::make_unique<StallWatch>(*events_, board, recorder.meter(), options_.device);
    notifier_ = std::make_unique<Notifier>(board, [this] { look_for_errors(); });
    make_rings();
  }

  void enqueue(int id, int step) override {
    const BoundOp& op = bound_->ops[static_cast<std::size_t>(id)];
    Lane& lane = *lanes_[static_cast<std::size_t>(op.op->lane)];
    if (lane.served) return lane.served->launch(id, step);
    if (has_rings_ && !wait_for_room(lane)) return;
    const cudaStream_t stream = lane.stream.get();
    nvtxRangePushA(op.op->name.c_str());
    for (const Predecessor& p : op.predecessors) {
      const int count = step + 1 - p.distance;  // executions of p that must have ended
      if (count <= 0) continue;
      if (p.on_gpu && !is_served(p.op))
        PENSTOCK_CUDA(cudaStreamWaitEvent(stream, events_->end(p.op, step - p.distance), 0));
      else
        check_driver(memory_ops_.wait(stream, word(p.op), static_cast<cuuint32_t>(count), CU_STREAM_WAIT_VALUE_GEQ),
                     "cuStreamWaitValue32");
    }
    events_->mark_start(id, step, stream);
    launch(op, lane, step);
    events_->mark_end(id, step, stream);
    check_driver(memory_ops_.write(stream, word(id), static_cast<cuuint32_t>(step + 1), CU_STREAM_WRITE_VALUE_DEFAULT),
                 "cuStreamWriteValue32");
    if (op.host_waits || has_rings_) notifier_->expect(id, static_cast<std::uint32_t>(step + 1));
    if (has_rings_) lane.launched.push_back({id, static_cast<std::uint32_t>(step + 1)});
    nvtxRangePop();
    steps_ = std::max(steps_, step + 1);
  }

  bool has_metered(int step) override { return stalls_->has_metered(step); }

  void drain() override {
    if (bound_ == nullptr) return;
    try {
      for (const auto& lane : lanes_)
        if (lane) lane->served.reset();  // joins
      for (const auto& lane : lanes_)
        if (lane) PENSTOCK_CUDA(cudaStreamSynchronize(lane->stream.get()));
      if (!board_->aborted()) events_->report(*bound_, steps_, *recorder_);
    } catch (...) {
      board_->abort(std::current_exception());
    }
    notifier_.reset();
    stalls_.reset();
    events_.reset();
    lanes_.clear();
    board_memory_ = Registration();
    bound_ = nullptr;
  }

 private:
  struct Launched {
    int op = 0;
    std::uint32_t count = 0;
  };
  struct Lane {
    StreamHandle stream;
    DeviceMemory norm_scratch;
    std::deque<Launched> launched;       // where there are rings: the last kLaunchedAhead
    std::unique_ptr<PinnedRing> ring;    // nullptr: its copies go directly
    std::unique_ptr<ServedLane> served;  // with a ring; last, since it uses the others
  };

  bool is_served(int op) const {
    return lanes_[static_cast<std::size_t>(bound_->ops[static_cast<std::size_t>(op)].op->lane)]->served != nullptr;
  }

  /// A kernel reaches pinned memory of the host; of the rest it would read what is not there.
  void require_reachable() const {
    for (const BoundOp& op : bound_->ops) {
      if (!is_gpu(op.lane_kind) || std::holds_alternative<BoundCopy>(op.work)) continue;
      for (const auto* accesses : {&op.op->reads, &op.op->writes})
        for (const Access& access : *accesses) {
          const Buffer& buffer = bound_->schedule->buffers[static_cast<std::size_t>(access.buffer)];
          if (pinned_ && bound_->schedule->tiers[static_cast<std::size_t>(buffer.tier)].kind == TierKind::dram)
            throw DoesNotFit(
                fmt::format("\"{}\" works on \"{}\" in dram from the GPU, for which all of dram must be "
                            "pinned. {}",
                            op.op->name, buffer.name, pinned_->why));
        }
    }
  }

  /// Lanes with copies that go through a ring get one, and a thread that serves them.
  void make_rings() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (!needs_ring(*bound_, static_cast<int>(i))) continue;
      Lane& lane = *lanes_[i];
      lane.ring = std::make_unique<PinnedRing>(lane.stream.get(), ring_threads(read_memory_limits().cores));
      lane.served =
          std::make_unique<ServedLane>(*bound_, *board_, *recorder_, [this, &lane](const BoundOp& op, int step) {
            PENSTOCK_CUDA(cudaSetDevice(options_.device));
            const auto* const copy = std::get_if<BoundCopy>(&op.work);
            if (copy != nullptr && copy->goes_through_ring()) return lane.ring->copy(*copy);
            launch(op, lane, step);
            lane.ring->wait_for_stream();
          });
      has_rings_ = true;
    }
  }

  /// The launch thread must not stand in a full queue inside the driver: a ring's thread calls the driver too, and what
  /// would empty the queue may wait for it. False after an abort.
  bool wait_for_room(Lane& lane) const {
    if (lane.launched.size() < kLaunchedAhead) return true;
    const Launched oldest = lane.launched.front();
    lane.launched.pop_front();
    return board_->wait(oldest.op, oldest.count);
  }

  static StreamMemoryOps prepare(const CudaBackendOptions& options) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || options.device >= count)
      throw std::runtime_error("backend cuda: " + describe_cuda_devices());
    PENSTOCK_CUDA(cudaSetDevice(options.device));
    return StreamMemoryOps::load();
  }

  struct DeviceRoom {
    std::int64_t taken = 0, limit = 0;
  };
  /// What context and modules (or, later, everything) take of the device, and the bound on it.
  DeviceRoom room() const {
    std::size_t free_bytes = 0, total_bytes = 0;
    PENSTOCK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const auto total = static_cast<std::int64_t>(total_bytes);
    return {total - static_cast<std::int64_t>(free_bytes),
            options_.hbm_limit_bytes > 0 ? std::min(total, options_.hbm_limit_bytes) : total};
  }

  std::unique_ptr<Memory> allocate_device(std::int64_t bytes) {
    const auto [taken, limit] = room();
    if (taken + bytes > limit)
      throw DoesNotFit(
          fmt::format("the hbm arena of {} bytes does not fit: context and library modules take {} bytes of the device "
                      "and the limit is "
                      "{} bytes ({}), so {} bytes are missing",
                      bytes, taken, limit, options_.hbm_limit_bytes > 0 ? "--hbm-limit" : "all of the device",
                      taken + bytes - limit));
    return std::make_unique<TierOnDevice>(bytes, device_bytes_);
  }

  void make_lanes() {
    lanes_.clear();
    has_rings_ = false;
    for (std::size_t i = 0; i < bound_->schedule->lanes.size(); ++i) {
      lanes_.push_back(is_gpu(bound_->schedule->lanes[i].kind) ? std::make_unique<Lane>() : nullptr);
      if (!lanes_.back()) continue;
      std::int64_t scratch = 0;
      for (const BoundOp& op : bound_->ops)
        if (op.op->lane == static_cast<int>(i))
          if (const auto* finish = std::get_if<BoundFinish>(&op.work))
            scratch = std::max(scratch, norm_scratch_elements(finish->elements));
      lanes_.back()->norm_scratch = DeviceMemory(scratch * static_cast<std::int64_t>(sizeof(double)));
    }
  }

  /// Runs each distinct kind of op once. CUDA and its libraries load kernels at first use, and loading may wait for the
  /// whole device: inside a step, where a stream waits for a host op that waits for a launch still to come, that never
  /// ends. Reads garbage and writes only what the schedule writes again before it reads it; states are left alone.
  void rehearse() {
    std::set<std::tuple<int, int, int, bool, bool>> seen;
    std::set<std::pair<bool, int>> finished;
    for (const BoundOp& op : bound_->ops) {
      if (!is_gpu(op.lane_kind)) continue;
      const Lane& lane = *lanes_[static_cast<std::size_t>(op.op->lane)];
      if (const auto* w = std::get_if<TemplateBinding>(&op.work)) {
        if (seen.insert({static_cast<int>(w->kind), static_cast<int>(w->pass), static_cast<int>(w->layout.keep),
                         w->accumulates, w->place(TemplateOperand::output) != nullptr})
                .second)
          launch(op, lane, 0);
      } else if (const auto* finish = std::get_if<BoundFinish>(&op.work)) {
        if (finished.insert({finish->tied != nullptr, static_cast<int>(finish->out_type)}).second) launch(op, lane, 0);
      } else if (const auto* optimizer = std::get_if<BoundOptimizer>(&op.work)) {
        rehearse_optimizer(*optimizer, lane.stream.get());
      }
    }
    PENSTOCK_CUDA(cudaDeviceSynchronize());
  }

  /// On states of its own.
  static void rehearse_optimizer(const BoundOptimizer& work, cudaStream_t stream) {
    constexpr std::int64_t kElements = 256, kPlane = kElements * 4;
    const DeviceMemory scratch(8 * kPlane);
    PENSTOCK_CUDA(cudaMemset(scratch.data(), 0, 8 * kPlane));
    const auto plane = [&scratch](int i) { return static_cast<void*>(scratch.data() + i * kPlane); };
    OptimizerStates states = work.states;
    states.weights = static_cast<std::uint16_t*>(plane(0));
    if (states.low_bits != nullptr) states.low_bits = static_cast<std::uint16_t*>(plane(1));
    if (states.master != nullptr) states.master = static_cast<float*>(plane(2));
    states.m = plane(3);
    states.v = plane(4);
    adamw_cuda(states, plane(5), work.gradient_type, kElements, static_cast<const StepScalars*>(plane(6)), stream);
    PENSTOCK_CUDA(cudaStreamSynchronize(stream));
  }

  cudaStream_t first_stream() const {
    for (const auto& lane : lanes_)
      if (lane) return lane->stream.get();
    return nullptr;
  }

  CUdeviceptr word(int op) const { return words_ + sizeof(std::uint32_t) * static_cast<std::size_t>(op); }

  void look_for_errors() const {
    for (const auto& lane : lanes_) {
      if (!lane) continue;
      const cudaError_t state = cudaStreamQuery(lane->stream.get());
      if (state != cudaErrorNotReady) PENSTOCK_CUDA(state);
    }
  }

  void launch(const BoundOp& op, const Lane& lane, int step) {
    struct Launch {
      CudaBackend& backend;
      const Lane& lane;
      cudaStream_t stream;
      int step;

      void operator()(const TemplateBinding& w) const { backend.templates_->run(w, stream); }
      void operator()(const BoundCopy& w) const {
        std::int64_t done = 0;
        std::byte *const from = w.from.address(), *const to = w.to.address();
        for (const Burst& burst : w.bursts)
          for (std::int64_t i = 0; i < burst.count; ++i, done += burst.bytes)
            PENSTOCK_CUDA(cudaMemcpyAsync(to + done, from + done, static_cast<std::size_t>(burst.bytes),
                                          cudaMemcpyDefault, stream));
      }
      void operator()(const BoundOptimizer& w) const {
        adamw_cuda(w.states, w.gradient, w.gradient_type, w.elements, w.scalars, stream, w.undecayed);
      }
      void operator()(const BoundAccumulate& w) const {
        accumulate_cuda(w.part, w.part_type, w.sum, w.sum_type, w.first, w.elements, stream);
      }
      void operator()(const BoundFinish& w) const {
        finish_gradient_cuda(w.sum, w.sum_type, w.tied, w.out, w.out_type, w.elements,
                             reinterpret_cast<double*>(lane.norm_scratch.data()), w.norm_partial, stream);
      }
      void operator()(const BoundScalars& w) const {
        const StepSource& source = backend.bound_->source;
        const AdamHyper hyper = source.hyper(step);
        const StepScalars prepared = make_step_scalars(hyper, source.number(step), 0, false);
        step_scalars_cuda(prepared, hyper.max_norm, w.partials.data(), static_cast<int>(w.partials.size()),
                          w.trained_tokens, w.out, stream);
      }
      void operator()(const BoundInput&) const { refuse(); }
      void operator()(const BoundReport&) const { refuse(); }
      void operator()(const BoundHostPass&) const { refuse(); }
      void operator()(const BoundWait&) const { refuse(); }
      [[noreturn]] static void refuse() { throw std::logic_error("host work on a GPU lane"); }
    };
    std::visit(Launch{*this, lane, lane.stream.get(), step}, op.work);
  }

  CudaBackendOptions options_;
  StreamMemoryOps memory_ops_;
  std::int64_t arena_limit_bytes_ = 0;
  std::unique_ptr<CudaTemplates> templates_;
  std::int64_t device_bytes_ = 0;  // of HBM, allocated as memory of a tier
  std::optional<Pinned> pinned_;   // less than all of DRAM
  bool has_rings_ = false;
  const BoundSchedule* bound_ = nullptr;
  Board* board_ = nullptr;
  Recorder* recorder_ = nullptr;
  Registration board_memory_;
  CUdeviceptr words_ = 0;
  int steps_ = 0;                             // enqueued
  std::vector<std::unique_ptr<Lane>> lanes_;  // by lane; nullptr for lanes that are not the GPU's
  std::unique_ptr<LaneEvents> events_;
  std::unique_ptr<StallWatch> stalls_;
  std::unique_ptr<Notifier> notifier_;
};

std::string version_text(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

std::string describe(int device) {
  cudaDeviceProp properties{};
  PENSTOCK_CUDA(cudaGetDeviceProperties(&properties, device));
  PENSTOCK_CUDA(cudaSetDevice(device));
  std::size_t free_bytes = 0, total_bytes = 0;
  PENSTOCK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  int driver = 0, runtime = 0;
  PENSTOCK_CUDA(cudaDriverGetVersion(&driver));
  PENSTOCK_CUDA(cudaRuntimeGetVersion(&runtime));
  return fmt::format(
      "cuda device {}: {}, compute capability {}.{}, {} multiprocessors, {:.1f} of {:.1f} GiB free, {} copy engines; "
      "driver for {}, built for {}",
      device, properties.name, properties.major, properties.minor, properties.multiProcessorCount,
      static_cast<double>(free_bytes) / (1 << 30), static_cast<double>(total_bytes) / (1 << 30),
      properties.asyncEngineCount, version_text(driver), version_text(runtime));
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

CudaMemory measure_cuda_memory(int device) {
  const auto backend = make_cuda_backend({.device = device});
  std::size_t free_bytes = 0, total_bytes = 0;
  PENSTOCK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {static_cast<std::int64_t>(total_bytes), backend->context_bytes(), kLibraryReserveBytes};
}

bool cuda_device_available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

CudaAttention cuda_attention() { return {Attention::name(), Attention::note()}; }

std::string cuda_bus_id(int device) {
  char bus[32] = {};
  return cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess ? bus : "";
}

std::string describe_cuda_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    return fmt::format(
        "no usable CUDA device: {} (driver: {}, built for {}); install NVIDIA's driver of that version or newer",
        error == cudaSuccess ? "none found" : cudaGetErrorString(error), driver == 0 ? "none" : version_text(driver),
        version_text(runtime));
  }
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : "\n", describe(i));
  return text;
}

}  // namespace penstock::exec
