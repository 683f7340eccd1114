// Cuts a range of elements over threads. Each calling thread (a lane) has its own team of helpers, made when first
// needed, kept for the next call and joined when the calling thread ends: an optimizer lane calls once per layer and
// step.
#pragma once

#include <cstdint>
#include <functional>

namespace penstock::exec {

/// Calls body(begin, end) on `threads` threads (the calling one included) for consecutive ranges that cover [0,
/// elements); every begin is a multiple of `granule`. Which ranges there are, several for each thread, depends on the
/// arguments alone; which thread runs which does not. Returns when all have ended; rethrows the first range's
/// exception, if any threw. `threads` < 1 counts as 1. Must not be called from a body. Denormals are kept in every
/// body, whatever the calling thread does with them.
void for_ranges(std::int64_t elements, std::int64_t granule, int threads,
                const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace penstock::exec
