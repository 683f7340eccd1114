// bf16 as the upper half of an fp32 pattern, on bit patterns so that host and device share the code.
#pragma once

#include <bit>
#include <cstdint>

#include "exec/numerics/host_device.h"

namespace penstock::exec {

PENSTOCK_HOST_DEVICE constexpr bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

/// Nearest even. NaN becomes 0x7FFF, as the device's own conversion has it.
PENSTOCK_HOST_DEVICE constexpr std::uint16_t bf16_from_bits(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(is_nan_bits(bits) ? 0x7FFFu : rounded);
}

PENSTOCK_HOST_DEVICE constexpr std::uint32_t bits_from_bf16(std::uint16_t value) {
  return static_cast<std::uint32_t>(value) << 16;
}

/// Host only: std::bit_cast is no device function.
constexpr std::uint16_t round_to_bf16(float value) { return bf16_from_bits(std::bit_cast<std::uint32_t>(value)); }
constexpr float widen_bf16(std::uint16_t value) { return std::bit_cast<float>(bits_from_bf16(value)); }

}  // namespace penstock::exec
