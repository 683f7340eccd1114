#include "shared/ir/memory_text.h"

#include <fmt/format.h>

#include "shared/units.h"

namespace penstock {

std::string contents_text(const TierMemory& tier, Unused unused) {
  std::string text;
  for (const auto& [what, bytes] : tier.contents)
    if (what != "unused" || unused == Unused::shown)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, format_bytes(static_cast<double>(bytes)));
  return text;
}

}  // namespace penstock
