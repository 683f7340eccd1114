#include "shared/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/standard_streams.h"

namespace penstock {
namespace {

/// What of the text one row of the terminal takes: a row that wraps could not be taken back.
std::string one_row(const std::string& text) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return text;
  return text.substr(0, static_cast<std::size_t>(size.ws_col) - 1);
}

}  // namespace

StatusLine::StatusLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

StatusLine::StatusLine(const std::string& work) : StatusLine() { update(work); }

StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  tell("\r\033[K" + one_row(text));
  shown_ = true;
}

void StatusLine::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_) tell("\r\033[K");
  shown_ = false;
}

}  // namespace penstock
