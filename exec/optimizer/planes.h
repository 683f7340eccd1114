// The fp32 master as two 16-bit planes (docs/design.md, "States"): hi is the bf16 value that the GPU computes with, lo
// the 16 low bits. hi is rounded to nearest, ties away from zero: ties to even would need a 17th bit to be undone.
//
// Exact for every finite float and both infinities; a NaN comes back as 0x7FC00000. Works on bit patterns so that host
// and device share the code.
#pragma once

#include <cstdint>

#include "exec/numerics/bf16.h"
#include "exec/numerics/host_device.h"

namespace penstock::exec {

struct PlanePair {
  std::uint16_t hi = 0;
  std::uint16_t lo = 0;
};

PENSTOCK_HOST_DEVICE constexpr PlanePair split_planes(std::uint32_t bits) {
  const std::uint32_t stored = is_nan_bits(bits) ? 0x7FC00000u : bits;
  // No overflow: the largest pattern that is not a NaN is 0xFF800000.
  return {static_cast<std::uint16_t>((stored + 0x8000u) >> 16), static_cast<std::uint16_t>(stored & 0xFFFFu)};
}

/// Where lo's top bit is set, hi was rounded up: take one back.
PENSTOCK_HOST_DEVICE constexpr std::uint32_t join_planes(std::uint16_t hi, std::uint16_t lo) {
  return ((static_cast<std::uint32_t>(hi) - (static_cast<std::uint32_t>(lo) >> 15)) << 16) | lo;
}

}  // namespace penstock::exec
