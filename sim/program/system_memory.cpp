#include "sim/program/system_memory.h"

#include <fmt/format.h>
#include "sim/front_desk.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/catalogue.h"
#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/ir/schedule_names.h"
#include "shared/policy/parameters.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

/// Keys of [policy] that change which bytes there are; a preset with one of them is no longer its system.
constexpr const char* kNumerics[] = {"states", "moments", "gradient_sum", "gradient_link", "sum_on_host"};

std::string bytes(std::int64_t count) {
  return fmt::format("{}{}", count < 0 ? "-" : "", format_bytes(std::abs(static_cast<double>(count))));
}

std::string tier_name(TierKind tier) { return std::string(tier_names()[static_cast<std::size_t>(tier)]); }

std::string phase_name(int phase) { return memory_phase_name(static_cast<MemoryPhase>(phase)); }

std::string phases_text(const AddedMemory& item) {
  if (std::all_of(item.phases.begin(), item.phases.end(), [](bool there) { return there; })) return "";
  std::string text;
  for (int phase = 0; phase < kMemoryPhases; ++phase)
    if (item.phases[static_cast<std::size_t>(phase)])
      text += fmt::format("{}{}", text.empty() ? " (" : ", ", phase_name(phase));
  return fmt::format("{})", text);
}

/// Why nothing is counted; settings that nothing would read are refused.
SystemVerdict not_counted(const Scenario& scenario, const std::string& why) {
  for (const auto& [name, given] : scenario.software_settings)
    throw InputError(fmt::format("{}: configures another system's code, but {}", given.place, why));
  return {std::nullopt, why};
}

}  // namespace

SystemVerdict system_of(const Scenario& scenario, const std::vector<TierMemory>& schedule) {
  std::filesystem::path file = scenario.software;
  if (file.empty()) {
    const std::string name = preset_software(scenario.policy.name);
    if (name.empty()) {
      not_counted(scenario, "the policy stands for no other system");
      return {};
    }
    if (std::any_of(std::begin(kNumerics), std::end(kNumerics),
                    [&](const char* key) { return scenario.fixed.contains(key); }))
      return not_counted(scenario, "the policy has other numerics than its system");
    if (scenario.machine.gpu.is_host) return not_counted(scenario, "the CPU stands in for the GPU");
    file = catalogue_folder() / "software" / name;
  }
  const SoftwareMemory software = read_software_memory(file);
  if (software.items.empty()) return not_counted(scenario, fmt::format("{} says nothing of memory", file.string()));
  return {system_memory(software, scenario, schedule), ""};
}

std::string system_text(const SystemMemory& system) {
  std::string text = fmt::format("What {} adds ({})\n", system.name, system.path.filename().string());
  std::vector<std::vector<std::string>> rows;
  for (const AddedMemory& item : system.added)
    rows.push_back({fmt::format("  {}  {}{}{}", tier_name(item.tier), item.cause, phases_text(item),
                                item.instead_of > 0 ? ", instead of " + bytes(item.instead_of) : ""),
                    bytes(item.bytes)});
  text += table_text(rows);
  rows = {{"with it"}, {"  may take"}, {"  needs"}, {"  headroom"}};
  for (const SystemTier& tier : system.tiers) {
    rows[0].push_back(tier_name(tier.tier.kind));
    rows[1].push_back(bytes(tier.tier.capacity_bytes));
    rows[2].push_back(bytes(tier.peak_bytes));
    rows[3].push_back(bytes(tier.tier.capacity_bytes - tier.peak_bytes));
  }
  for (int phase = 0; phase < kMemoryPhases; ++phase) {
    rows.push_back({fmt::format("    {}", phase_name(phase))});
    for (const SystemTier& tier : system.tiers)
      rows.back().push_back(bytes(tier.phase_bytes[static_cast<std::size_t>(phase)]));
  }
  text += table_text(rows);
  for (const MemoryPhase phase : {MemoryPhase::save, MemoryPhase::resume})
    for (const SystemTier& tier : system.tiers)
      if (tier.peak_bytes <= tier.tier.capacity_bytes && tier.most_until(phase) > tier.tier.capacity_bytes)
        text += fmt::format("It trains, but {} is too small to {}: {} of {}.\n", tier_name(tier.tier.kind),
                            memory_phase_name(phase), bytes(tier.most_until(phase)), bytes(tier.tier.capacity_bytes));
  return text;
}

ordered_json system_json(const SystemMemory& system) {
  ordered_json settings = ordered_json::object(), added = ordered_json::array(), tiers = ordered_json::array();
  for (const auto& [name, setting] : system.settings)
    settings[name] = setting.is_flag ? ordered_json(setting.value != 0) : ordered_json(setting.value);
  for (const AddedMemory& item : system.added) {
    ordered_json phases = ordered_json::array();
    for (int phase = 0; phase < kMemoryPhases; ++phase)
      if (item.phases[static_cast<std::size_t>(phase)]) phases.push_back(phase_name(phase));
    added.push_back({{"tier", tier_name(item.tier)},
                     {"cause", item.cause},
                     {"phases", phases},
                     {"bytes", item.bytes},
                     {"instead_of_bytes", item.instead_of}});
  }
  for (const SystemTier& tier : system.tiers) {
    ordered_json phases = ordered_json::object();
    for (int phase = 0; phase < kMemoryPhases; ++phase)
      phases[phase_name(phase)] = tier.phase_bytes[static_cast<std::size_t>(phase)];
    tiers.push_back({{"tier", tier_name(tier.tier.kind)},
                     {"usable_bytes", tier.tier.capacity_bytes},
                     {"needed_bytes", tier.peak_bytes},
                     {"peak_phase", memory_phase_name(tier.peak_phase)},
                     {"phase_bytes", phases}});
  }
  return {{"name", system.name},  {"file", system.path.string()},
          {"settings", settings}, {"fits", system.fits()},
          {"added", added},       {"memory", tiers}};
}

}  // namespace penstock::sim
