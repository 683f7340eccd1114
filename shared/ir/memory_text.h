// What a tier's memory holds, in words.
#pragma once

#include <string>

#include "shared/ir/memory.h"

namespace penstock {

/// Whether the last item of TierMemory::contents is said.
enum class Unused { shown, left_out };
/// "moments 33.80 MiB, weights 8.45 MiB"; empty if there is nothing.
std::string contents_text(const TierMemory& tier, Unused unused);

}  // namespace penstock
