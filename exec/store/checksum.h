// The checksum of one block of a store.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::exec {

/// Of kDriveAlignment bytes. Never 0.
std::uint32_t block_checksum(const std::byte* block);

}  // namespace penstock::exec
