// Bounds of what a schedule may say. Far beyond any real one; they keep sums within 64 bits and bad files from asking
// for absurd amounts of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;   // any size or offset
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;  // of one micro-batch
inline constexpr std::int64_t kMaxMicroBatches = 1'000'000;        // per step
inline constexpr std::int64_t kMaxChunks = 256;    // of a sequence: an op names a value for each chunk before its own
inline constexpr std::size_t kMaxOps = 8'000'000;  // per step; policies write half as many at most
inline constexpr std::size_t kMaxEdges = 2 * kMaxOps;  // likewise
inline constexpr std::size_t kMaxInitial = 1'000'000;  // per step; policies write six for each layer
inline constexpr std::size_t kMaxLanes = 64;
inline constexpr std::int64_t kMaxSegmentVisits = std::int64_t{1} << 26;  // see Segments::visits; also ops x lanes

}  // namespace penstock
