// What of a DRAM arena a GPU's copies reach by themselves on a machine (shared/pinned_ring.h has the rest).
#pragma once

#include <cstdint>
#include <string>

#include "shared/machine/machine.h"

namespace penstock {

/// Of the arena's bytes, from its beginning; all where the machine does not say what can be pinned.
std::int64_t directly_copied_bytes(std::int64_t arena_bytes, const Machine& machine);

/// "pinned: 1 GiB of dram, so 832 MiB of the arena are copied directly and 2.31 GiB through rings of 128 MiB, slower";
/// empty if all is copied directly.
std::string pinned_text(std::int64_t arena_bytes, const Machine& machine);

}  // namespace penstock
