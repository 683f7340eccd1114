// What `penstock-exec run` says: before the first step, at each step, and at the end.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/program/run_setup.h"
#include "exec/runtime/training.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

void print_head(const RunSetup& setup);

/// Collects the steps' reports and prints them as they come.
class Progress {
 public:
  Progress(const RunSetup& setup, StatusLine& status, int steps, bool json);

  void begin();
  /// Called from a host lane; nobody else writes meanwhile.
  void operator()(const StepReport& report);
  const std::vector<StepReport>& reports() const { return reports_; }

 private:
  std::string bar(std::int64_t step, double seconds) const;

  StatusLine& status_;
  std::int64_t tokens_per_step_;
  std::int64_t last_step_;
  bool json_;
  std::int64_t last_ns_ = 0;
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
std::optional<Speed> measure(const RunSetup& setup, const Timeline& timeline);

/// What lay in memory besides the arenas, as found at the end of a run, beside what was counted with.
struct BesideMemory {
  std::int64_t host_bytes = 0, counted_bytes = 0;  // -1: the system does not say
  std::int64_t gpu_bytes = 0;                      // 0: no GPU
};
BesideMemory beside_memory(const RunSetup& setup, const Training& training);

void print_tail(const RunSetup& setup, const ExecutorResult& result, const std::optional<Speed>& speed,
                const BesideMemory& beside);

nlohmann::ordered_json result_json(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                                   const Progress& progress, const std::optional<Speed>& speed,
                                   const BesideMemory& beside);

}  // namespace penstock::exec
