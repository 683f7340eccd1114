// What came of a run's steps: a run that updated nothing, or whose states are lost, is no success.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "exec/runtime/bound_op.h"

namespace penstock::exec {

struct RunUpdates {
  std::int64_t steps = 0;
  std::int64_t skipped = 0;        // updated nothing: their gradient norm was not finite, or they are among the next
  std::int64_t untrained = 0;      // had no token that is trained on
  std::int64_t first_skipped = 0;  // step; 0: none
  std::int64_t lost_since = 0;  // step from which on no loss was finite though updates were made: they were NaN; 0: no

  /// Of a run that had steps, and not one update that was worth it.
  bool failed() const { return (steps > 0 && skipped == steps) || lost_since > 0; }
};

/// `clips`: the schedule has a norm, which stops an update that is not finite.
RunUpdates count_updates(std::span<const StepReport> reports, bool clips);

/// A line if steps were skipped, or "".
std::string updates_text(const RunUpdates& updates);
nlohmann::ordered_json updates_json(const RunUpdates& updates);

/// Throws std::runtime_error if it failed: how many steps, since when, what to look at, and that nothing is saved to
/// `save` (empty: nothing was to be).
void require_updates(const RunUpdates& updates, const std::filesystem::path& save);

}  // namespace penstock::exec
