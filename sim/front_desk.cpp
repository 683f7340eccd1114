#include "sim/front_desk.h"

#include <fmt/format.h>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/policy/parameters.h"
#include "shared/units.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/progress.h"

namespace penstock::sim {
namespace {

void require_same_workload(const Schedule& schedule, const Scenario& scenario, const std::filesystem::path& file) {
  const auto differ = [&](const char* what, const auto& in_file, const auto& in_scenario) {
    throw InputError(
        fmt::format("{}: the schedule is for {} {}, but {} has {}: give the scenario that it was planned "
                    "from",
                    file.string(), what, in_file, scenario.path.string(), in_scenario));
  };
  ModelConfig model = schedule.model;
  model.name = scenario.model.config.name;  // names are for people
  if (!(model == scenario.model.config)) differ("model", schedule.model.name, scenario.model.config.name);
  if (schedule.micro_batch.sequence_length != scenario.sequence_length)
    differ("sequence length", schedule.micro_batch.sequence_length, scenario.sequence_length);
  if (schedule.micro_batch.sequences != scenario.micro_batch)
    differ("micro-batch", schedule.micro_batch.sequences, scenario.micro_batch);
  if (const std::int64_t cut = scenario.shape(1).chunk_tokens; schedule.micro_batch.chunk_tokens != cut)
    differ("chunk_tokens", schedule.micro_batch.chunk_tokens, cut);
  if (schedule.whole_step().sequences != scenario.sequences)
    differ("sequences per step", schedule.whole_step().sequences, scenario.sequences);
  const auto rows = [](BatchKind kind) { return batch_kind_names()[static_cast<std::size_t>(kind)]; };
  if (schedule.micro_batch.kind != scenario.rows) differ("rows", rows(schedule.micro_batch.kind), rows(scenario.rows));
}

}  // namespace

Decision plan_what_is_open(Scenario& scenario) {
  StatusLine status("planning");
  SearchOptions options;
  options.progress = searching(status, "planning: ");
  Decision decision = decide(scenario, options);
  apply(decision, scenario);
  return decision;
}

Decision plan_what_is_open(Scenario& scenario, const TierCapacities& room) {
  Scenario within = within_room(scenario, room);
  Decision decision = plan_what_is_open(within);
  apply(decision, scenario);
  return decision;
}

std::string planned_line(const Decision& decision) {
  const std::string text = decision_text(decision);
  return text.empty() ? text : text + "\n";
}

Scenario within_room(const Scenario& scenario, const TierCapacities& room) {
  Scenario within = scenario;
  Machine& machine = within.machine;
  machine.gpu.hbm_bytes = room.hbm;
  machine.dram_bytes = room.dram;
  machine.nvme.bytes = room.nvme;
  machine.gpu.context_bytes = machine.reserve_bytes = 0;
  return within;
}

void require_sound(const Schedule& schedule, const std::string& place) {
  try {
    require_valid(schedule, Capacities::are_not);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

Schedule proved_schedule(const Scenario& scenario, const std::filesystem::path& file) {
  const StatusLine status("writing and proving the schedule");
  Schedule schedule = file.empty() ? make_schedule(scenario.policy_input()) : read_schedule(file);
  if (!file.empty()) require_same_workload(schedule, scenario, file);
  require_sound(schedule, file.empty() ? scenario.path.string() : file.string());
  return schedule;
}

std::vector<TierMemory> memory_on(const Schedule& schedule, const Scenario& scenario) {
  const PolicyInput input = scenario.policy_input();
  std::vector<TierMemory> memory = schedule_memory(schedule);
  for (TierMemory& tier : memory) switch (tier.tier.kind) {
      case TierKind::hbm: tier.tier.capacity_bytes = input.hbm_bytes; break;
      case TierKind::dram: tier.tier.capacity_bytes = input.dram_bytes; break;
      case TierKind::nvme: tier.tier.capacity_bytes = input.nvme_bytes; break;
    }
  return memory;
}

std::string excess_text(const std::vector<TierMemory>& memory, const Machine& machine) {
  std::string text;
  for (const TierMemory& tier : memory) {
    const std::int64_t excess = tier.arena_bytes - tier.tier.capacity_bytes;
    if (excess <= 0) continue;
    text += fmt::format("{}{} needs {} and has {}, {} too little (most in phase {}, {} live)", text.empty() ? "" : "; ",
                        tier_names()[static_cast<std::size_t>(tier.tier.kind)],
                        format_bytes(static_cast<double>(tier.arena_bytes)), usable_text(tier.tier.kind, machine),
                        format_bytes(static_cast<double>(excess)), memory_phase_name(tier.peak_phase),
                        format_bytes(static_cast<double>(tier.peak_bytes)));
  }
  return text;
}

std::string does_not_fit_text(const Scenario& scenario, const std::string& excess) {
  return fmt::format("{} does not fit {}: {}", scenario.path.string(), scenario.machine.name, excess);
}

std::vector<Remedy> find_remedies(const Scenario& asked, bool machine_is_there) {
  const StatusLine status("looking for what would make it fit");
  return remedies(asked, 0, machine_is_there);
}

}  // namespace penstock::sim
