// What the planes promise about one fp32 pattern.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "exec/optimizer/planes.h"

namespace penstock::exec {

/// Split and joined gives the pattern (0x7FC00000 for a NaN); lo holds the pattern's low bits; hi is the nearest bf16,
/// ties away from zero: adding half a unit to the magnitude and cutting.
inline bool plane_pattern_holds(std::uint32_t bits) {
  const bool nan = (bits & 0x7F800000u) == 0x7F800000u && (bits & 0x007FFFFFu) != 0;
  const PlanePair pair = split_planes(bits);
  if (nan) return pair.hi == 0x7FC0 && pair.lo == 0;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu, sign = bits & 0x80000000u;
  const std::uint32_t up = (magnitude & 0x8000u) != 0 ? 1 : 0;
  const std::uint32_t nearest = (magnitude >> 16) + up + (sign >> 16);
  return join_planes(pair.hi, pair.lo) == bits && pair.lo == (bits & 0xFFFFu) && pair.hi == nearest;
}

}  // namespace penstock::exec
