// What `penstock-exec run` says before the first step and at the end (between: exec/training/console_line.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "exec/program/run_setup.h"
#include "exec/training/evaluation.h"
#include "exec/training/training.h"
#include "shared/timeline/timeline.h"

namespace penstock::exec {

std::string head_text(const RunSetup& setup);

nlohmann::ordered_json evaluations_json(std::span<const EvaluationReport> reports);

/// Model FLOPs of a step at the machine's matmul rate; 0 where the machine does not say.
double bound_seconds(const RunSetup& setup);

Timeline make_timeline(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                       std::span<const StepReport> reports);

/// Steady state, if enough steps were run for one.
struct Speed {
  double step_seconds = 0;
  double spread = 0;  // of one period it says nothing
  std::size_t periods = 0;
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
  // What is free on the machine fell by so much more than the arenas: the driver's and the system's share is in it, and
  // what other programs took or gave back meanwhile.
  std::int64_t machine_bytes = 0;
};
BesideMemory beside_memory(const RunSetup& setup, const Training& training);

std::string tail_text(const RunSetup& setup, const ExecutorResult& result, const std::optional<Speed>& speed,
                      const BesideMemory& beside);

nlohmann::ordered_json result_json(const RunSetup& setup, const Training& training, const ExecutorResult& result,
                                   std::span<const StepReport> reports, const std::optional<Speed>& speed,
                                   const BesideMemory& beside);

}  // namespace penstock::exec
