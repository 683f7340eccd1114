// The comparison as one self-contained HTML file that works offline: both timelines aligned at a step boundary,
// memory by tier and phase, stall causes, errors, and the scenario that made it.
#pragma once

#include <string>

#include "shared/compare/comparison.h"

namespace penstock {

/// REQUIRES: `comparison` is that of the two timelines. `scenario_text` may be empty. Everything that comes from a
/// file is escaped. Large schedules: fewer periods are drawn, never fewer ops of one.
std::string report_html(const Schedule& schedule, const Timeline& predicted, const Timeline& measured,
                        const Comparison& comparison, const std::string& scenario_text);

}  // namespace penstock
