// Timing on the device: events around work in a stream, and a gate that holds a stream back while work is enqueued, so
// that the host's speed does not show. Include only where the CUDA headers are at hand.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "exec/calibrate/calibration_ops.h"
#include "exec/calibrate/stopwatch.h"
#include "exec/cuda/kernel_marks.h"
#include "exec/cuda/stream_memory.h"
#include "exec/memory/arena.h"

namespace penstock::exec {

struct EventDestroyer {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDestroyer>;
Event make_event(unsigned flags = cudaEventDefault);
double seconds_between(const Event& from, const Event& to);

/// One execution: begin, the work, end; in between it may listen to the kernels of a template.
class Sample : public KernelMarks {
 public:
  /// Events are made here: making one may wait for the device.
  explicit Sample(std::size_t marks = 0);

  void begin(cudaStream_t stream);
  void after(KernelId kernel, Stream stream) override;
  void end(cudaStream_t stream);

  /// REQUIRES: the stream has got past `end`.
  double seconds() const { return seconds_between(begin_, end_); }
  std::vector<KernelMark> kernels() const;

 private:
  struct Mark {
    KernelId kernel{};
    Event event;
  };
  Event begin_ = make_event(), end_ = make_event();
  std::vector<Mark> marks_;
  std::size_t used_ = 0;
};

/// Holds streams back. At most a few hundred commands may be enqueued behind it, and none whose kernels are not loaded.
class Gate {
 public:
  Gate();
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close(cudaStream_t stream);
  void open();

 private:
  StreamMemoryOps memory_ops_;
  Arena page_;
  Registration registration_;
  CUdeviceptr word_ = 0;
  std::uint32_t closed_ = 0;
};

/// Seconds of what `work` enqueues, held back meanwhile.
double gated_seconds(Gate& gate, cudaStream_t stream, const std::function<void()>& work);
/// Median over repeats.
Measured measure_gated(Gate& gate, cudaStream_t stream, const std::function<void()>& work, const Repeats& repeats = {});

}  // namespace penstock::exec
