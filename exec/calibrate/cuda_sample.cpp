#include "exec/calibrate/cuda_sample.h"

#include <atomic>

namespace penstock::exec {

Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  PENSTOCK_CUDA(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

double seconds_between(const Event& from, const Event& to) {
  float milliseconds = 0;
  PENSTOCK_CUDA(cudaEventElapsedTime(&milliseconds, from.get(), to.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

Sample::Sample(std::size_t marks) {
  for (std::size_t i = 0; i < marks; ++i) marks_.push_back({{}, make_event()});
}

void Sample::begin(cudaStream_t stream) { PENSTOCK_CUDA(cudaEventRecord(begin_.get(), stream)); }

void Sample::after(KernelId kernel, Stream stream) {
  if (used_ == marks_.size()) marks_.push_back({{}, make_event()});
  Mark& mark = marks_[used_++];
  mark.kernel = kernel;
  PENSTOCK_CUDA(cudaEventRecord(mark.event.get(), stream));
}

void Sample::end(cudaStream_t stream) { PENSTOCK_CUDA(cudaEventRecord(end_.get(), stream)); }

std::vector<KernelMark> Sample::kernels() const {
  std::vector<KernelMark> times;
  const Event* last = &begin_;
  for (std::size_t i = 0; i < used_; ++i) {
    const Mark& mark = marks_[i];
    times.push_back({mark.kernel, seconds_between(*last, mark.event)});
    last = &mark.event;
  }
  return times;
}

Gate::Gate() : memory_ops_(StreamMemoryOps::load()), page_(4096, "calibration"), registration_(page_.data(), 4096) {
  void* word = nullptr;
  PENSTOCK_CUDA(cudaHostGetDevicePointer(&word, page_.data(), 0));
  word_ = reinterpret_cast<CUdeviceptr>(word);
}

void Gate::close(cudaStream_t stream) {
  ++closed_;
  check_driver(memory_ops_.wait(stream, word_, closed_, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue32");
}

void Gate::open() { std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(page_.data())).store(closed_); }

double gated_seconds(Gate& gate, cudaStream_t stream, const std::function<void()>& work) {
  Sample sample;
  gate.close(stream);
  try {
    sample.begin(stream);
    work();
    sample.end(stream);
  } catch (...) {
    gate.open();
    throw;
  }
  gate.open();
  PENSTOCK_CUDA(cudaStreamSynchronize(stream));
  return sample.seconds();
}

Measured measure_gated(Gate& gate, cudaStream_t stream, const std::function<void()>& work, const Repeats& repeats) {
  work();  // kernels that are not loaded yet would wait for the gate, and the gate for them
  PENSTOCK_CUDA(cudaStreamSynchronize(stream));
  return measure([&] { return gated_seconds(gate, stream, work); }, repeats);
}

}  // namespace penstock::exec
