// A search under way, as a line on the terminal.
#pragma once

#include <functional>
#include <string>

#include "shared/status_line.h"
#include "sim/planner/search.h"

namespace penstock::sim {

/// For SearchOptions::progress: shows the search behind `head`; nothing where no line is shown. `status` must outlive
/// it.
std::function<void(const SearchProgress&)> searching(StatusLine& status, const std::string& head = {});

/// "scan [####....] 120 simulated, best step 25.22 s".
std::string progress_text(const SearchProgress& progress);

}  // namespace penstock::sim
