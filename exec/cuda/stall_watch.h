// Reads the compute lane's events while the run goes on, for the recorder's meter (exec/runtime/stall_meter.h).
//
// In a thread of its own, for which no lane waits longer than kPatience: whoever asks the driver may have to wait for
// the launch thread, which may stand in a full queue until a host lane goes on. A thread that came too late, when events
// may have been used again, begins anew with the next step; of those between nothing is known.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "exec/cuda/lane_events.h"
#include "exec/runtime/board.h"
#include "exec/runtime/stall_meter.h"

namespace penstock::exec {

class StallWatch {
 public:
  static constexpr std::chrono::milliseconds kPatience{2};

  /// Begins at the events' anchor. All must outlive it.
  StallWatch(const LaneEvents& events, const Board& board, StallMeter& meter, int device);
  ~StallWatch();

  /// Whether the meter knows the step's stall. Waits for kPatience at most.
  bool has_metered(int step);

 private:
  void watch(const std::stop_token& token, int device);
  /// Meters what has ended since the last call.
  void advance();
  /// False if its times cannot be read.
  bool add(int op);
  void begin_anew();
  void step_ended();
  static std::optional<std::int64_t> elapsed_ns(cudaEvent_t from, cudaEvent_t to);

  const LaneEvents& events_;
  const Board& board_;
  StallMeter& meter_;
  // The watching thread's:
  int step_ = 0;          // of the op that comes next,
  std::size_t next_ = 0;  // which is this one of meter_.lane()
  bool is_whole_ = true;  // nothing is missing since the last step's end
  cudaEvent_t base_;      // times are read against it; null: against the start of the next op
  std::int64_t base_ns_;
  std::mutex mutex_;
  std::condition_variable_any asks_, changed_;
  bool is_asked_ = false;  // guarded by mutex_, as what follows is
  int ended_ = 0;          // steps
  std::array<bool, StallMeter::kKept> is_known_{};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace penstock::exec
