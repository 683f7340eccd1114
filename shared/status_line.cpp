#include "shared/status_line.h"

#include <unistd.h>

#include "shared/standard_streams.h"

namespace penstock {

StatusLine::StatusLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

StatusLine::StatusLine(const std::string& work) : StatusLine() { update(work); }

StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  tell("\r\033[K" + text);
  shown_ = true;
}

void StatusLine::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_) tell("\r\033[K");
  shown_ = false;
}

}  // namespace penstock
