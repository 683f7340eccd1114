// What a timeline must be to be laid beside another.
#pragma once

#include <string>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/timeline/timeline.h"

namespace penstock {

// `which` stands in messages: "predicted", "first".

/// Throws InputError unless the timeline has the hash of a schedule.
void require_hash(const std::string& hash, const Timeline& timeline, const std::string& which);

/// Throws InputError unless every step has every op: row step * ops + op of the timeline is theirs.
void require_complete(const Schedule& schedule, const Timeline& timeline, const std::string& which);

/// Its steady periods. Throws InputError if there are fewer than 2.
std::vector<double> steady_periods(const Schedule& schedule, const Timeline& timeline, const std::string& which);

}  // namespace penstock
