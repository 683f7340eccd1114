// One measured run, small enough to be kept in the repository and predicted anew whenever the simulator changes
// ("penstock-recording/1", docs/validation.md): the scenario, the profile it ran beside, and what was measured.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"
#include "shared/timeline/stalls.h"
#include "shared/timeline/timeline.h"

namespace penstock {

struct Recording {
  std::string text;                    // the scenario file as it was
  std::vector<std::string> overrides;  // "key=value", the capacities that the run had among them
  std::filesystem::path profile;       // relative to the recording's folder
  std::string machine, policy;         // names, for people
  std::string schedule_hash;
  std::string commit;        // of the program that ran, "unknown" outside a repository
  std::string date;          // ISO 8601, UTC
  double step_seconds = 0;   // median of the steady periods
  double spread = 0;         // (max - min) / median of them; of one it says nothing
  int periods = 0;           // how many
  double stall_seconds = 0;  // per steady step, mean
  std::array<double, kStallCauses> stall_by_cause{};
  std::vector<TierPeak> peaks;
  std::vector<double> op_seconds;  // by op: median duration over the steady steps, to the nanosecond
};

/// Throws InputError if the run cannot be predicted later: no profile of the machine, another schedule than the
/// policy's own, fewer than 2 steady steps.
void require_recordable(const Scenario& scenario, const std::filesystem::path& schedule_file);

/// `overrides` are those with which `scenario` was read; `file` is where the recording will be written. Throws
/// InputError with fewer than 2 steady periods. REQUIRES: require_recordable; a complete timeline of `schedule`.
Recording make_recording(const Scenario& scenario, const std::vector<std::string>& overrides, const Schedule& schedule,
                         const Timeline& measured, const std::string& commit, const std::filesystem::path& file);

/// Throws InputError that names file and key.
Recording read_recording(const std::filesystem::path& file);
void write_recording(const Recording& recording, const std::filesystem::path& file);

/// The scenario that ran, on the machine of the profile. Model files are looked up by the names that the scenario gives
/// them, in the recording's folder and those above it. Throws InputError.
Scenario recorded_scenario(const Recording& recording, const std::filesystem::path& file);

}  // namespace penstock
