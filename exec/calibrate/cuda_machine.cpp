#include "exec/calibrate/cuda_machine.h"

#include <algorithm>

#include "exec/cuda/notifier.h"
#include "exec/cuda/optimizer.h"
#include "exec/runtime/board.h"
#include "exec/runtime/recorder.h"

namespace penstock::exec {
namespace {

constexpr std::int64_t kHbmCopy = std::int64_t{1} << 30;
constexpr int kOps = 50;  // behind a closed gate, five commands each
constexpr std::uint32_t kRounds = 200;
constexpr std::int64_t kSmallWork = 4096;

double seconds_since(std::int64_t start) { return static_cast<double>(now_ns() - start) * 1e-9; }

/// A word of pinned host memory that streams write.
class HostWord {
 public:
  HostWord() : page_(4096, "calibration"), registration_(page_.data(), 4096) {
    void* word = nullptr;
    PENSTOCK_CUDA(cudaHostGetDevicePointer(&word, page_.data(), 0));
    address_ = reinterpret_cast<CUdeviceptr>(word);
  }
  CUdeviceptr address() const { return address_; }

 private:
  Arena page_;
  Registration registration_;
  CUdeviceptr address_ = 0;
};

}  // namespace

MeasuredRate measure_hbm(Gate& gate, cudaStream_t stream) {
  const DeviceMemory from(kHbmCopy), to(kHbmCopy);
  const Measured measured = measure_gated(gate, stream, [&] {
    PENSTOCK_CUDA(
        cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(kHbmCopy), cudaMemcpyDeviceToDevice, stream));
  });
  return {2.0 * static_cast<double>(kHbmCopy) / measured.seconds, measured.spread};
}

OpOverhead measure_op_overhead(Gate& gate, cudaStream_t stream) {
  const StreamMemoryOps memory_ops = StreamMemoryOps::load();
  const HostWord word;
  const DeviceMemory small(kSmallWork);
  const StreamHandle elsewhere;
  const Event other = make_event(cudaEventDisableTiming);
  std::vector<Event> starts, ends;
  for (int i = 0; i < kOps; ++i) {
    starts.push_back(make_event());
    ends.push_back(make_event());
  }
  const auto work = [&] { PENSTOCK_CUDA(cudaMemsetAsync(small.data(), 0, kSmallWork, stream)); };
  double enqueue_seconds = 0;
  const auto bare = [&] {
    const std::int64_t start = now_ns();
    for (int i = 0; i < kOps; ++i) work();
    enqueue_seconds = seconds_since(start);
  };
  std::uint32_t count = 0;
  const auto whole = [&] {
    // Still to come when it is waited for, as where the launch thread runs ahead.
    gate.close(elsewhere.get());
    PENSTOCK_CUDA(cudaEventRecord(other.get(), elsewhere.get()));
    const std::int64_t start = now_ns();
    for (int i = 0; i < kOps; ++i) {
      PENSTOCK_CUDA(cudaStreamWaitEvent(stream, other.get(), 0));
      PENSTOCK_CUDA(cudaEventRecord(starts[static_cast<std::size_t>(i)].get(), stream));
      work();
      PENSTOCK_CUDA(cudaEventRecord(ends[static_cast<std::size_t>(i)].get(), stream));
      check_driver(memory_ops.write(stream, word.address(), ++count, CU_STREAM_WRITE_VALUE_DEFAULT),
                   "cuStreamWriteValue32");
    }
    enqueue_seconds = seconds_since(start);
  };
  work();  // what is not loaded yet must not be loaded behind a closed gate
  PENSTOCK_CUDA(cudaStreamSynchronize(stream));
  std::vector<double> bare_launch, whole_launch, bare_device, whole_device;
  for (int repeat = 0; repeat < 12; ++repeat) {
    const double bare_seconds = gated_seconds(gate, stream, bare), bare_enqueued = enqueue_seconds;
    const double whole_seconds = gated_seconds(gate, stream, whole);
    if (repeat < 2) continue;  // warm-up
    bare_device.push_back(bare_seconds);
    bare_launch.push_back(bare_enqueued);
    whole_device.push_back(whole_seconds);
    whole_launch.push_back(enqueue_seconds);
  }
  const auto each = [](const std::vector<double>& all, const std::vector<double>& without) {
    return std::max(0.0, (summarise(all).seconds - summarise(without).seconds) / kOps);
  };
  return {each(whole_launch, bare_launch), each(whole_device, bare_device)};
}

Measured measure_round_trip() {
  const StreamMemoryOps memory_ops = StreamMemoryOps::load();
  const StreamHandle stream;
  const auto rounds = [&] {
    Board board(2);
    const Registration registration(board.words(), board.bytes());
    void* words = nullptr;
    PENSTOCK_CUDA(cudaHostGetDevicePointer(&words, board.words(), 0));
    const auto asked = reinterpret_cast<CUdeviceptr>(words), answered = asked + sizeof(std::uint32_t);
    Notifier notifier(board, [] {});
    std::int64_t first = 0, last = 0;
    {
      const std::jthread host([&] {
        for (std::uint32_t i = 1; i <= kRounds; ++i) {
          if (!board.wait(0, i)) return;
          (i == 1 ? first : last) = now_ns();
          board.publish(1, i);
        }
      });
      try {
        for (std::uint32_t i = 1; i <= kRounds; ++i) {
          notifier.expect(0, i);
          check_driver(memory_ops.write(stream.get(), asked, i, CU_STREAM_WRITE_VALUE_DEFAULT), "cuStreamWriteValue32");
          check_driver(memory_ops.wait(stream.get(), answered, i, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue32");
        }
        PENSTOCK_CUDA(cudaStreamSynchronize(stream.get()));
      } catch (...) {
        board.abort(std::current_exception());
        throw;
      }
    }
    return static_cast<double>(last - first) * 1e-9 / (kRounds - 1);
  };
  return measure(rounds, {.least = 5, .most = 15, .enough_seconds = 0, .limit_seconds = 1});
}

void measure_device_optimizer(std::int64_t elements, Gate& gate, cudaStream_t stream, KernelTables& tables) {
  const auto random = [](std::int64_t bytes) {
    DeviceMemory memory(bytes);
    memory.fill(0x3A);  // bf16 7e-4, fp32 7e-4: ordinary numbers, and no rate here depends on the bits
    return memory;
  };
  const DeviceMemory hi = random(2 * elements), lo = random(2 * elements), m = random(4 * elements),
                     v = random(4 * elements), gradient = random(2 * elements), sum = random(4 * elements);
  const DeviceMemory scratch(8 * norm_scratch_elements(elements) + 8), total(8);
  DeviceMemory device_scalars(sizeof(StepScalars));
  const StepScalars scalars = make_step_scalars({}, 1, 1.0, true);
  device_scalars.upload(&scalars, sizeof scalars);
  OptimizerStates states;
  states.weights = hi.as<std::uint16_t>();
  states.low_bits = lo.as<std::uint16_t>();
  states.m = m.data();
  states.v = v.data();
  const auto add = [&](KernelId kernel, std::int64_t bytes_per_element, std::int64_t count,
                       const std::function<void()>& work) {
    KernelTime time;
    time.kernel.id = kernel;
    time.kernel.bytes = bytes_per_element * count;
    time.seconds = measure_gated(gate, stream, work).seconds;
    tables.add_burst(time);
  };
  for (const std::int64_t count : {elements, elements / 4 / 1024 * 1024}) {
    if (count == 0) continue;
    add(KernelId::adamw, 26, count, [&] {
      adamw_cuda(states, gradient.data(), ElementType::bf16, count, device_scalars.as<StepScalars>(), stream);
    });
    add(KernelId::finish_gradient, 6, count, [&] {
      finish_gradient_cuda(sum.data(), ElementType::fp32, nullptr, gradient.data(), ElementType::bf16, count,
                           scratch.as<double>(), total.as<double>(), stream);
    });
  }
}

}  // namespace penstock::exec
