// Chrome trace JSON (opens in Perfetto): each timeline is a process, each lane a thread, flow arrows for edges that
// bound.
#pragma once

#include <filesystem>
#include <vector>

#include "shared/timeline/timeline.h"

namespace penstock {

void write_chrome_trace(const Schedule& schedule, const std::vector<const Timeline*>& timelines,
                        const std::filesystem::path& path);

}  // namespace penstock
