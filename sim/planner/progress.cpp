#include "sim/planner/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/units.h"

namespace penstock::sim {

std::function<void(const SearchProgress&)> searching(StatusLine& status, const std::string& head) {
  if (!status.on_terminal()) return {};
  return [&status, head](const SearchProgress& progress) { status.update(head + progress_text(progress)); };
}

std::string progress_text(const SearchProgress& progress) {
  constexpr int kWidth = 24;
  const int filled = std::clamp(static_cast<int>(progress.done * kWidth), 0, kWidth);
  return fmt::format("{} [{}{}] {} simulated{}", progress.phase, std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(kWidth - filled), '.'), progress.evaluated,
                     progress.best_seconds > 0 ? ", best step " + format_seconds(progress.best_seconds) : "");
}

}  // namespace penstock::sim
