#include "exec/store/checksum.h"

#include <algorithm>

// Inlined, so that it is compiled for this machine and nothing has to be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shared/drive_alignment.h"

namespace penstock::exec {

std::uint32_t block_checksum(const std::byte* block) {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(XXH3_64bits(block, kDriveAlignment)));
}

}  // namespace penstock::exec
