// `shop --own`: what a machine that is there should get next.
#pragma once

#include <filesystem>

#include "sim/planner/catalogue.h"
#include "sim/program/commands.h"

namespace penstock::sim {

/// Plans for the machine of the scenario or hardware file options.own, and for it with each upgrade of the catalogue
/// that options.budget buys; the most tokens/s per euro first. Returns the exit code, 3 with what is missing where not
/// even an upgraded machine holds the model.
/// Throws InputError: a file that is neither; a model or workload beside a scenario, which has its own; none beside a
/// hardware file; no upgrades; none for the budget.
int shop_own(const ShopOptions& options, const Catalogue& catalogue, const std::filesystem::path& prices);

}  // namespace penstock::sim
