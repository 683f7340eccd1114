// What a machine with a GPU can do besides the templates' kernels: copies alone, together and beside AdamW; DRAM; HBM;
// launches; the way from a stream to a host thread and back. Include only where the CUDA headers are at hand.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "exec/calibrate/cuda_sample.h"
#include "exec/calibrate/host_machine.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/pinned_ring.h"
#include "exec/memory/arena.h"

namespace penstock::exec {

/// Copies between pinned host memory (as the backend's arenas are: huge pages, registered) and the device.
class CudaCopies {
 public:
  explicit CudaCopies(Gate& gate);

  /// One transfer of `bytes` among others that follow each other in a stream, as the bursts of a copy op do.
  Measured curve_point(bool h2d, std::int64_t bytes);

  struct Rates {
    double h2d = 0, d2h = 0;  // bytes per second; 0 where the direction rests
  };
  /// Both or one direction without a pause while `work` runs, which is called once they are under way.
  Rates beside(bool h2d, bool d2h, const std::function<void()>& work);

 private:
  struct Direction {
    Arena host;
    Registration registration;
    DeviceMemory device;
    StreamHandle stream;
    std::int64_t at = 0;  // copies walk through the memory, so that no cache serves them

    Direction();
    void enqueue(bool h2d, std::int64_t bytes);
  };

  Gate& gate_;
  Direction up_, down_;
};

/// Copies between host memory that is not pinned and the device, through rings as the backend's lanes have them.
class CudaRingCopies {
 public:
  /// `threads` move the pieces of each ring.
  explicit CudaRingCopies(int threads);

  /// One copy of `bytes`, from its beginning to its end.
  Measured curve_point(bool h2d, std::int64_t bytes);
  /// As CudaCopies::beside.
  CudaCopies::Rates beside(bool h2d, bool d2h, const std::function<void()>& work);

 private:
  struct Direction {
    Arena host;
    DeviceMemory device;
    StreamHandle stream;
    PinnedRing ring;
    std::int64_t at = 0;

    explicit Direction(int threads);
    void copy(bool h2d, std::int64_t bytes);
  };

  Direction up_, down_;
};

/// AdamW on layers of `elements` in the planes layout, far beyond the caches, random states.
class AdamwLoad {
 public:
  explicit AdamwLoad(std::int64_t elements);
  /// Parameters per second on `threads` threads over at least `seconds`.
  double run(int threads, double seconds);

 private:
  static constexpr std::int64_t kBytes = 14;  // per parameter: hi 2, lo 2, m 4, v 4, gradient 2
  std::int64_t elements_, stride_, layers_, layer_ = 0;
  Arena arena_;
};

/// a = b + s c over arrays far beyond the caches.
class Triad {
 public:
  Triad();
  /// Bytes per second that `threads` threads read and write.
  MeasuredRate run(int threads);

 private:
  static float* floats(const Arena& arena) { return reinterpret_cast<float*>(arena.data()); }
  Arena to_, from_, other_;
};

/// Bytes read and written per second by a large copy on the device.
MeasuredRate measure_hbm(Gate& gate, cudaStream_t stream);

struct OpOverhead {
  double launch_seconds = 0;  // of the thread that enqueues an op: a wait for an event, two events, a write
  double device_seconds = 0;  // of the stream, for the same
};
OpOverhead measure_op_overhead(Gate& gate, cudaStream_t stream);

/// From a stream's write to a host thread that waits for it, and from that thread's answer back to the stream: what a
/// host op between two GPU ops costs besides its work.
Measured measure_round_trip();

/// AdamW (planes) and the finishing of a gradient (fp32 to bf16, with its norm) on the device, by elements.
void measure_device_optimizer(std::int64_t elements, Gate& gate, cudaStream_t stream, KernelTables& tables);

}  // namespace penstock::exec
