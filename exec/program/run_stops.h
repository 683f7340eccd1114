// A run that is asked to end. Before its first step that loses nothing, and the first wish ends it at once. From then on
// it finishes what has begun, and says how long that takes; what ending at once would lose is said before it is done.
//   first wish   the steps that have begun are the last ones; says what is finished and for how long
//   second       says what would be lost
//   third        ends the run at once: its states are of no step, nothing is saved. An op that does not end within a
//                second, as an op of minutes, ends with the process.
// While files are written nothing ends that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "exec/program/run_setup.h"
#include "exec/runtime/run_control.h"
#include "exec/training/observer.h"
#include "shared/stop_signals.h"

namespace penstock::exec {

/// What is known when a stop is asked for.
struct StopState {
  int wishes = 1;
  std::string_view cause;      // "Ctrl-C"
  std::int64_t before = 0;     // the last step that is saved, or that the run began after
  std::int64_t done = 0;       // the last step that ended
  std::int64_t last = 0;       // the last one that is to end
  double seconds_left = -1;    // until then; 0: more than expected has passed; negative: not known
  std::filesystem::path save;  // empty: none
  bool is_writing = false;     // no step runs any more
  bool has_begun = true;       // a step may run
};
std::string stop_text(const StopState& state);

class RunStops : public TrainingObserver {
 public:
  /// Hears signals as long as it lives. `save`, which must outlive it: where the run is saved, empty: nowhere.
  explicit RunStops(const std::filesystem::path& save);
  ~RunStops() override;

  /// The first step comes next. `setup` must outlive this.
  void begins(const RunSetup& setup);

  RunControl& control() { return control_; }
  void training_after(std::int64_t step) override;
  void step_ended(const StepReport& report, double seconds) override;
  void saving(std::int64_t step) override;
  void saved(std::int64_t step, const std::filesystem::path& folder) override;
  /// The last step is over, files are written now.
  void writing();

 private:
  void heard(int wishes, std::string_view cause);
  void end_at_once(const std::string& why);
  double seconds_left(std::int64_t steps) const;

  const std::filesystem::path& save_;
  RunControl control_;
  // Of the last step that ended, or of when training went on, and how long that step took (0: none did).
  std::atomic<std::int64_t> done_{0}, last_ns_{0};
  std::atomic<double> step_seconds_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as what follows is.
  const RunSetup* setup_ = nullptr;  // once it has begun
  bool is_writing_ = false, has_ended_ = false;
  std::int64_t saved_ = 0, part_before_ = 0;  // steps
  StopSignals signals_;                       // last: it calls `heard`
};

}  // namespace penstock::exec
