#include "sim/program/memory_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/ir/schedule_names.h"
#include "shared/units.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

std::string bytes(std::int64_t count) { return format_bytes(static_cast<double>(count)); }

}  // namespace

std::string memory_text(const std::vector<TierMemory>& memory) {
  std::vector<std::vector<std::string>> rows{{"memory"}, {"  capacity"}, {"  arena"}, {"  headroom"}, {"  live bytes"}};
  std::vector<std::string>&head = rows[0], &capacity = rows[1], &arena = rows[2], &headroom = rows[3];
  for (const TierMemory& tier : memory) {
    head.emplace_back(tier_names()[static_cast<std::size_t>(tier.tier.kind)]);
    capacity.push_back(bytes(tier.tier.capacity_bytes));
    arena.push_back(bytes(tier.arena_bytes));
    headroom.push_back(bytes(tier.tier.capacity_bytes - tier.arena_bytes));
  }
  for (int phase = 0; phase < kMemoryPhases; ++phase) {
    std::vector<std::string> row{fmt::format("    {}", memory_phase_name(static_cast<MemoryPhase>(phase)))};
    for (const TierMemory& tier : memory) row.push_back(bytes(tier.phase_bytes[static_cast<std::size_t>(phase)]));
    rows.push_back(row);
  }
  return table_text(rows);
}

std::string contents_text(const std::vector<TierMemory>& memory) {
  std::string text;
  for (const TierMemory& tier : memory) {
    text += fmt::format("{} holds", tier_names()[static_cast<std::size_t>(tier.tier.kind)]);
    const char* comma = " ";
    for (const auto& [what, count] : tier.contents) {
      text += fmt::format("{}{} {}", comma, what, bytes(count));
      comma = ", ";
    }
    text += "\n";
  }
  return text;
}

ordered_json memory_json(const std::vector<TierMemory>& memory) {
  ordered_json tiers = ordered_json::array();
  for (const TierMemory& tier : memory) {
    ordered_json phases = ordered_json::object(), contents = ordered_json::object();
    for (int phase = 0; phase < kMemoryPhases; ++phase)
      phases[memory_phase_name(static_cast<MemoryPhase>(phase))] = tier.phase_bytes[static_cast<std::size_t>(phase)];
    for (const auto& [what, count] : tier.contents) contents[what] = count;
    tiers.push_back({{"tier", tier_names()[static_cast<std::size_t>(tier.tier.kind)]},
                     {"device", tier.tier.device},
                     {"capacity_bytes", tier.tier.capacity_bytes},
                     {"arena_bytes", tier.arena_bytes},
                     {"headroom_bytes", tier.tier.capacity_bytes - tier.arena_bytes},
                     {"peak_bytes", tier.peak_bytes},
                     {"peak_phase", memory_phase_name(tier.peak_phase)},
                     {"phase_bytes", phases},
                     {"content_bytes", contents}});
  }
  return tiers;
}

std::string json_text(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::sim
