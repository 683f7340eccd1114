// How much a machine can hold under one policy: the most decoder layers, the longest context, the most tokens per step.
// Only memory is looked at: whatever fits is called possible, however slow.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/scenario/scenario.h"

namespace penstock::sim {

/// Of a policy's parameters, or of the planner's space if there are none.
using PolicyChoice = std::optional<PolicyParameters>;

inline constexpr std::int64_t kMostLayersTried = 4096;
inline constexpr std::int64_t kLongestContextTried = std::int64_t{1} << 23;
inline constexpr std::int64_t kMostSequencesTried = 1 << 12;

/// Decoder layers of the scenario's model shape, all else as in the scenario; 0 if not even one fits.
std::int64_t most_layers(const Scenario& scenario, const PolicyChoice& policy);
/// Tokens, in steps of 1024, of a single sequence per step; 0 if not even 1024 fit.
std::int64_t longest_context(const Scenario& scenario, const PolicyChoice& policy);
/// Sequences per step, in steps of the scenario's micro-batch; 0 if not even one micro-batch fits.
std::int64_t most_sequences(const Scenario& scenario, const PolicyChoice& policy);

/// The scenario with another number of decoder layers.
Scenario with_layers(Scenario scenario, std::int64_t layers);

}  // namespace penstock::sim
