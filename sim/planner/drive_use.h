// Plans that keep something on a drive: predicted, but penstock-exec does no I/O on one. Who plans says so.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/ir/schedule.h"
#include "shared/scenario/scenario.h"

namespace penstock::sim {

inline constexpr std::string_view kDriveIsSimulated = "penstock-exec does no I/O on a drive yet";

/// "it keeps moments 33.80 MiB, master 8.45 MiB on NVMe, and penstock-exec does ..."; empty if nothing is there.
std::string drive_use(const Schedule& schedule);

/// The same, and by which keys that plan would do without, and whether it then fits: "...; in DRAM instead
/// (policy.nvme_states = 0) hbm needs ...". `scenario`'s policy has written the schedule, or it is from a file, whose
/// keys nobody knows.
std::string simulated_only(const Schedule& schedule, const Scenario& scenario, bool is_from_file = false);

/// Puts "executable", and "simulated_only" with that text where it is not.
void put_executable(nlohmann::ordered_json& json, const std::string& simulated_only);

}  // namespace penstock::sim
