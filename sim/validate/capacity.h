// Configurations that somebody ran, and whether they fit by our count: as the row says them, and under the planner's
// policy with the same numerics. Nothing is simulated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "shared/scenario/scenario.h"

namespace penstock::sim {

struct FitRow {
  std::string scenario, system;
  std::int64_t sequence_length = 0;
  bool as_published = false;  // the row's policy, with what the system's own code adds where that is known
  bool planned = false;       // some plan of policy `penstock`
  std::string excess;         // what the row's policy lacks, for people
};

/// The scenario under policy `penstock`, all of it open but for micro-batch, loss chunks and numerics, and no drive.
Scenario planned_alike(const Scenario& scenario);

/// Whether the planner finds a plan: `fit` of such a scenario, without looking for a fast one.
bool plan_fits(const Scenario& scenario, int threads = 0);

/// Of all scenarios in the folder, and rows of tables, that were published as fitting and are not under a planned
/// policy. `progress` hears the name of each file. Throws as validate_folder.
std::vector<FitRow> fit_rows(const std::filesystem::path& folder,
                             const std::function<void(const std::string&)>& progress);

}  // namespace penstock::sim
