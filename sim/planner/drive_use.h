// What a plan does with a drive: what it keeps there, and how fast that wears it. Who plans or runs one says so.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/ir/schedule.h"
#include "shared/machine/machine.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {

struct DriveUse {
  std::string kept;                                // "moments 33.80 MiB, master 8.45 MiB"; empty: nothing is there
  std::int64_t read_bytes = 0, written_bytes = 0;  // of a step, in whole blocks of kDriveAlignment
};
DriveUse drive_use(const Schedule& schedule);

/// 0 where no step takes time.
double written_bytes_per_day(const DriveUse& use, double step_seconds);
/// Until what is written reaches the drive's rated endurance; 0 where one of the two is not known.
double endurance_days(const DriveUse& use, const Nvme& drive, double step_seconds);

/// Whether that is within half a year.
bool wears_out_soon(const DriveUse& use, const Nvme& drive, double step_seconds);

/// "NVMe: keeps moments 33.80 MiB; a step reads 33.80 MiB and writes 33.80 MiB: 1.3 TB a day, 461 days until the rated
/// 600 TB"; without days where step_seconds is 0. A second line warns of a drive that is worn out within half a year.
/// Empty if nothing is there.
std::string drive_text(const Schedule& schedule, const Nvme& drive, double step_seconds);
/// Puts "nvme" with the same, if anything is there.
void put_drive(nlohmann::ordered_json& json, const Schedule& schedule, const Nvme& drive, double step_seconds);

/// Why a run of it needs machine.nvme_path, and by which keys the plan would do without, and whether it then fits: "keeps
/// ... on NVMe: name a folder on the drive ...; in DRAM instead (policy.nvme_states = 0) hbm needs ...". `scenario`'s
/// policy has written the schedule, or it is from a file, whose keys nobody knows.
std::string needs_drive(const Schedule& schedule, const Scenario& scenario, bool is_from_file);

}  // namespace penstock::sim
