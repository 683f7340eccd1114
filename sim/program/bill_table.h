// What one training takes on several machines, as a table.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/money/bill.h"

namespace penstock::sim {

/// Machines by name; those without a bill (no room, no amount) are left out. Empty if there is none at all.
std::string bills_text(const std::vector<std::pair<std::string, std::optional<Bill>>>& bills);

}  // namespace penstock::sim
