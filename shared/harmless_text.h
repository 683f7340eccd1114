// Text that came from a file, a name or an argument, on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Control characters but tab and end of line: a terminal would obey them.
inline bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f;
}

/// With control characters written out, as "\x1b".
std::string harmless(std::string_view text);

}  // namespace penstock
