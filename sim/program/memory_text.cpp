#include "sim/program/memory_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/ir/memory_text.h"
#include "shared/ir/schedule_names.h"
#include "shared/machine/pinned_memory.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

std::string bytes(std::int64_t count) { return format_bytes(static_cast<double>(count)); }

struct Capacity {
  std::int64_t bytes = 0;
  std::int64_t kept_bytes = 0;  // of it, from arenas
  const char* kept_for = "";
};

Capacity capacity_of(TierKind tier, const Machine& machine) {
  switch (tier) {
    case TierKind::hbm: return {machine.gpu.hbm_bytes, context_bytes(machine), "driver, context and libraries"};
    case TierKind::dram: return {machine.dram_bytes, reserve_bytes(machine), "the system and the program itself"};
    case TierKind::nvme: break;
  }
  return {machine.nvme.bytes};
}

}  // namespace

std::string capacity_text(TierKind tier, const Machine& machine) {
  const Capacity capacity = capacity_of(tier, machine);
  if (capacity.kept_bytes == 0) return bytes(capacity.bytes);
  return fmt::format("{}, of which {} kept for {}", bytes(capacity.bytes), bytes(capacity.kept_bytes),
                     capacity.kept_for);
}

std::string memory_text(const std::vector<TierMemory>& memory, const Machine& machine) {
  std::vector<std::vector<std::string>> rows{{"memory"},  {"  capacity"}, {"  kept"},
                                             {"  arena"}, {"  headroom"}, {"  live bytes"}};
  std::vector<std::string>&head = rows[0], &capacity = rows[1], &kept = rows[2], &arena = rows[3], &headroom = rows[4];
  std::string for_whom, pinned;
  for (const TierMemory& tier : memory) {
    const Capacity all = capacity_of(tier.tier.kind, machine);
    const std::string_view name = tier_names()[static_cast<std::size_t>(tier.tier.kind)];
    head.emplace_back(name);
    capacity.push_back(bytes(all.bytes));
    kept.push_back(bytes(all.kept_bytes));
    if (all.kept_bytes > 0)
      for_whom += fmt::format("{} of {} for {}", for_whom.empty() ? "kept:" : ";", name, all.kept_for);
    arena.push_back(bytes(tier.arena_bytes));
    if (tier.tier.kind == TierKind::dram) pinned = pinned_text(tier.arena_bytes, machine);
    headroom.push_back(bytes(tier.tier.capacity_bytes - tier.arena_bytes));
  }
  for (int phase = 0; phase < kMemoryPhases; ++phase) {
    std::vector<std::string> row{fmt::format("    {}", memory_phase_name(static_cast<MemoryPhase>(phase)))};
    for (const TierMemory& tier : memory) row.push_back(bytes(tier.phase_bytes[static_cast<std::size_t>(phase)]));
    rows.push_back(row);
  }
  return table_text(rows) + (for_whom.empty() ? "" : for_whom + "\n") + (pinned.empty() ? "" : pinned + "\n");
}

std::string contents_text(const std::vector<TierMemory>& memory) {
  std::string text;
  for (const TierMemory& tier : memory) {
    const std::string held = penstock::contents_text(tier, Unused::shown);
    text += fmt::format("{} holds{}{}\n", tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                        held.empty() ? "" : " ", held);
  }
  return text;
}

ordered_json memory_json(const std::vector<TierMemory>& memory, const Machine& machine) {
  ordered_json tiers = ordered_json::array();
  for (const TierMemory& tier : memory) {
    ordered_json phases = ordered_json::object(), contents = ordered_json::object();
    for (int phase = 0; phase < kMemoryPhases; ++phase)
      phases[memory_phase_name(static_cast<MemoryPhase>(phase))] = tier.phase_bytes[static_cast<std::size_t>(phase)];
    for (const auto& [what, count] : tier.contents) contents[what] = count;
    tiers.push_back({{"tier", tier_names()[static_cast<std::size_t>(tier.tier.kind)]},
                     {"device", tier.tier.device},
                     {"capacity_bytes", capacity_of(tier.tier.kind, machine).bytes},
                     {"kept_bytes", capacity_of(tier.tier.kind, machine).kept_bytes},
                     {"arena_bytes", tier.arena_bytes},
                     {"headroom_bytes", tier.tier.capacity_bytes - tier.arena_bytes},
                     {"peak_bytes", tier.peak_bytes},
                     {"peak_phase", memory_phase_name(tier.peak_phase)},
                     {"phase_bytes", phases},
                     {"content_bytes", contents}});
    if (tier.tier.kind == TierKind::dram && machine.pinned_bytes) {
      tiers.back()["pinned_bytes"] = *machine.pinned_bytes;
      tiers.back()["directly_copied_bytes"] = directly_copied_bytes(tier.arena_bytes, machine);
    }
  }
  return tiers;
}

ordered_json remedies_json(const std::vector<Remedy>& remedies) {
  ordered_json list = ordered_json::array();
  for (const Remedy& remedy : remedies)
    list.push_back({{"key", remedy.key},
                    {"value", remedy.value},
                    {"cost", remedy.cost},
                    {"step_seconds", remedy.step_seconds},
                    {"tokens_per_second", remedy.tokens_per_second}});
  return list;
}

std::string json_text(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::sim
