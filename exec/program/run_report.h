// What `penstock-exec run` says: before the first step, at each step, and at the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/program/run_setup.h"
#include "exec/training/evaluation.h"
#include "exec/training/training.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

std::string head_text(const RunSetup& setup);

std::string evaluation_text(const EvaluationReport& report);
nlohmann::ordered_json evaluations_json(const std::vector<EvaluationReport>& reports);

/// Collects the steps' reports and prints them as they come.
class Progress {
 public:
  Progress(const RunSetup& setup, StatusLine& status, int steps, bool json);

  void begin();
  // From any thread: the last step that was reported, how long it took (0: none was), and for how long the next goes
  // on.
  std::int64_t done() const { return done_; }
  double step_seconds() const { return step_seconds_; }
  double seconds_since() const;
  /// Called from a host lane; nobody else writes meanwhile.
  void operator()(const StepReport& report);
  const std::vector<StepReport>& reports() const { return reports_; }

 private:
  std::string time_left(std::int64_t step, double seconds) const;  // if every step takes `seconds`
  std::string bar(std::int64_t step, double seconds) const;

  StatusLine& status_;
  std::int64_t tokens_per_step_;
  double bound_seconds_;  // no schedule on this machine makes a step in less; 0: not known
  std::int64_t last_step_;
  bool json_;
  std::atomic<std::int64_t> done_, last_ns_{0};
  std::atomic<double> step_seconds_{0};
  std::vector<StepReport> reports_;
};

Timeline make_timeline(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                       const Progress& progress);

/// Steady state, if enough steps were run for one.
struct Speed {
  double step_seconds = 0;
  double spread = 0;
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  double predicted_seconds = 0;  // 0 = not known
};
/// 0 where the machine lacks a figure that the schedule needs: no reason for a run to fail.
double predicted_step_seconds(const RunSetup& setup);

std::optional<Speed> measure(const RunSetup& setup, const Timeline& timeline);

/// What lay in memory besides the arenas, as found at the end of a run, beside what was counted with.
struct BesideMemory {
  std::int64_t host_bytes = 0, counted_bytes = 0;  // -1: the system does not say
  std::int64_t gpu_bytes = 0;                      // 0: no GPU
};
BesideMemory beside_memory(const RunSetup& setup, const Training& training);

std::string tail_text(const RunSetup& setup, const ExecutorResult& result, const std::optional<Speed>& speed,
                      const BesideMemory& beside);

nlohmann::ordered_json result_json(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                                   const Progress& progress, const std::optional<Speed>& speed,
                                   const BesideMemory& beside);

}  // namespace penstock::exec
