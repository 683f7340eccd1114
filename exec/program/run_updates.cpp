#include "exec/program/run_updates.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace penstock::exec {

RunUpdates count_updates(std::span<const StepReport> reports, bool clips) {
  RunUpdates updates;
  for (const StepReport& report : reports) {
    ++updates.steps;
    if (report.skipped) ++updates.skipped;
    if (report.skipped && updates.first_skipped == 0) updates.first_skipped = report.step;
    if (report.trained_tokens == 0) {
      ++updates.untrained;
      continue;  // its loss tells nothing
    }
    if (clips || std::isfinite(report.loss))
      updates.lost_since = 0;
    else if (updates.lost_since == 0)
      updates.lost_since = report.step;
  }
  return updates;
}

std::string updates_text(const RunUpdates& updates) {
  if (updates.skipped == 0) return "";
  return fmt::format("{} of {} steps updated nothing, for {}; the first was step {}\n", updates.skipped, updates.steps,
                     updates.untrained == 0 ? "their gradient norm was not finite"
                     : updates.untrained == updates.skipped
                         ? "none of their tokens is trained on"
                         : "none of their tokens is trained on, or their gradient norm was not finite",
                     updates.first_skipped);
}

nlohmann::ordered_json updates_json(const RunUpdates& updates) {
  nlohmann::ordered_json json = {{"applied", updates.steps - updates.skipped}, {"skipped", updates.skipped}};
  if (updates.skipped > 0) json["first_skipped"] = updates.first_skipped;
  if (updates.lost_since > 0) json["lost_since"] = updates.lost_since;
  return json;
}

void require_updates(const RunUpdates& updates, const std::filesystem::path& save) {
  if (!updates.failed()) return;
  const std::string what =
      updates.lost_since > 0
          ? fmt::format(
                "the loss is not finite since step {}, and nothing stopped its updates (policy.clip = false): "
                "the states are lost",
                updates.lost_since)
      : updates.untrained > 0
          ? fmt::format("none of the {} steps updated anything: {} of them had no token that is trained on",
                        updates.steps, updates.untrained)
          : fmt::format("none of the {} steps updated anything: the gradient norm was not finite since step {}",
                        updates.steps, updates.first_skipped);
  throw std::runtime_error(fmt::format(
      "{}{}; look at the weights that the run began with and at its data, or lower [optimizer] learning_rate", what,
      save.empty() ? "" : fmt::format("; nothing is saved, {} is what it was before", save.string())));
}

}  // namespace penstock::exec
