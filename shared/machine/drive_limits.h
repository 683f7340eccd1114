// How a machine's file may say that copies to and from NVMe are cut.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr std::int64_t kMostTransferBytes = std::int64_t{64} << 20;
inline constexpr int kMostDepth = 256;

}  // namespace penstock
