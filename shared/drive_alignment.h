// Where copies to and from NVMe may begin.
#pragma once

#include <cstdint>

namespace penstock {

/// A copy to or from NVMe begins at a multiple of it, on the drive and in DRAM, and moves whole multiples: what lies
/// behind its bytes up to the next one, at both ends, is padding that nothing else uses. It is what O_DIRECT asks for
/// on every drive, not a drive's own block size: a schedule must be the same on another machine.
inline constexpr std::int64_t kDriveAlignment = 4096;

constexpr std::int64_t padded_for_drive(std::int64_t bytes) {
  return (bytes + kDriveAlignment - 1) / kDriveAlignment * kDriveAlignment;
}

}  // namespace penstock
