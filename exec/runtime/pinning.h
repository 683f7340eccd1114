// How much host memory the system lets a run pin for a GPU's copies, and what to do about a refusal. Pinning is tried
// before training: the arena is pinned whole, and where that is refused, in steps, to learn how much can be. Copies of the
// rest go through a ring (shared/pinned_ring.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "exec/runtime/limits.h"

namespace penstock::exec {

/// Tries grow, and are told apart, by this much.
inline constexpr std::int64_t kPinStep = std::int64_t{64} << 20;

/// Of the environment's PENSTOCK_PINNED_LIMIT ("1 GiB"): what a run may pin, as if the system refused more; -1: it is
/// not set. For machines that pin less than this one. Throws InputError for what is no size, or less
/// than rings take.
std::int64_t pinned_limit();

/// The most of `wanted` bytes, in whole steps, that can be pinned: `pin` pins and releases that many and says if it
/// could. Tries 1, 2, 4, ... steps until one is refused, then halves what lies between.
std::int64_t largest_pinnable(std::int64_t wanted, const std::function<bool(std::int64_t bytes)>& pin);

/// The reason of a refusal that is our own.
inline constexpr const char* kPinnedLimit = "more than the limit that was set";

/// How much of the arena can be pinned, what becomes of the rest, whose limit it is as far as the system tells, and what
/// to set. `reason`: the driver's, or ours. `root` is "/" but in tests.
std::string pinning_refused_text(std::int64_t wanted, std::int64_t pinnable, const std::string& reason,
                                 const MemoryLimits& limits, const std::filesystem::path& root = "/");

}  // namespace penstock::exec
