#include "sim/planner/drive_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/error.h"
#include "shared/ir/memory.h"
#include "shared/units.h"
#include "sim/planner/candidate_text.h"

namespace penstock::sim {
namespace {

/// "moments 33.80 MiB, master 8.45 MiB"
std::string on_drive(const Schedule& schedule) {
  std::string text;
  for (const TierMemory& tier : schedule_memory(schedule)) {
    if (tier.tier.kind != TierKind::nvme) continue;
    for (const auto& [what, bytes] : tier.contents)
      if (what != "unused")
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, format_bytes(static_cast<double>(bytes)));
  }
  return text;
}

/// Changes the policy to the same without a drive. Returns the keys that did it.
std::string leave_drive(PolicyParameters& policy) {
  std::string keys;
  const auto change = [&keys](auto& value, auto other, std::string_view key) {
    if (value == other) return;
    value = other;
    keys += fmt::format("{}policy.{}", keys.empty() ? "" : ", ", key);
  };
  change(policy.nvme_states, 0, "nvme_states = 0");
  change(policy.nvme_weights, 0, "nvme_weights = 0");
  if (policy.gradients == TierKind::nvme) change(policy.gradients, TierKind::dram, "gradients = \"dram\"");
  return keys;
}

/// What becomes of the plan by those keys.
std::string without_drive(Scenario scenario) {
  const std::string keys = leave_drive(scenario.policy);
  std::string outcome;
  try {
    const PolicyInput input = scenario.policy_input();
    const ArenaBytes arenas = arena_bytes(input);
    outcome = fits(arenas, input) ? "it fits" : shortage_text(arenas, scenario.machine);
  } catch (const InputError& error) {
    outcome = error.what();
  }
  return fmt::format("in DRAM instead ({}) {}", keys, outcome);
}

}  // namespace

std::string drive_use(const Schedule& schedule) {
  const std::string kept = on_drive(schedule);
  return kept.empty() ? kept
                      : fmt::format("it keeps {} on NVMe, and {} (on --backend host memory stands in for one)", kept,
                                    kDriveIsSimulated);
}

std::string simulated_only(const Schedule& schedule, const Scenario& scenario, bool is_from_file) {
  const std::string use = drive_use(schedule);
  if (use.empty()) return use;
  return use + "; " +
         (is_from_file ? std::string("plan it without one, with machine.nvme = \"0 B\"") : without_drive(scenario));
}

void put_executable(nlohmann::ordered_json& json, const std::string& simulated_only) {
  json["executable"] = simulated_only.empty();
  if (!simulated_only.empty()) json["simulated_only"] = simulated_only;
}

}  // namespace penstock::sim
