#include "shared/harmless_text.h"

#include <fmt/format.h>

namespace penstock {

std::string harmless(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_control(c))
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result;
}

}  // namespace penstock
