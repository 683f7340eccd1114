#include "sim/program/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "shared/standard_streams.h"
#include "shared/units.h"

namespace penstock::sim {

StatusLine::StatusLine(const std::string& text) : shown_(::isatty(STDERR_FILENO) == 1) { update(text); }

StatusLine::~StatusLine() {
  if (shown_) tell("\r\033[K");
}

void StatusLine::update(const std::string& text) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  tell(fmt::format("\r\033[K{} ...", text));
}

std::function<void(const SearchProgress&)> StatusLine::searching(const std::string& head) {
  if (!shown_) return {};
  return [this, head](const SearchProgress& progress) { update(head + progress_text(progress)); };
}

std::string progress_text(const SearchProgress& progress) {
  constexpr int kWidth = 24;
  const int filled = std::clamp(static_cast<int>(progress.done * kWidth), 0, kWidth);
  return fmt::format("{} [{}{}] {} simulated{}", progress.phase, std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(kWidth - filled), '.'), progress.evaluated,
                     progress.best_seconds > 0 ? ", best step " + format_seconds(progress.best_seconds) : "");
}

}  // namespace penstock::sim
