#pragma once

#include <cstdint>

namespace penstock {

/// The label of a place that is not trained on, as PyTorch's cross entropy has it.
inline constexpr std::int32_t kIgnoredLabel = -100;

}  // namespace penstock
