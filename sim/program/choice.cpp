#include "sim/program/choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/command_files.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/ir/checker.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"
#include "shared/policy/parameters.h"
#include "shared/standard_streams.h"
#include "shared/toml_reader.h"
#include "shared/units.h"
#include "sim/planner/candidate_text.h"
#include "sim/planner/open_policy.h"
#include "sim/planner/scenario_text.h"
#include "sim/program/commands.h"
#include "sim/program/progress.h"

namespace penstock::sim {
namespace {

std::vector<std::string> all_overrides(const ScenarioChoice& choice) {
  std::vector<std::string> overrides = choice.overrides;
  if (!choice.profile.empty())
    overrides.push_back("machine.profile=" + toml_quoted(std::filesystem::absolute(choice.profile).string()));
  return overrides;
}

/// `defaults`: what a question left open.
TomlDocument document_of(const ScenarioChoice& choice, std::string& defaults) {
  const std::vector<std::string> asked = choice.question.given();
  if (!choice.scenario.empty() && !asked.empty())
    throw InputError(fmt::format(
        "{} stands beside the scenario {}, which says that already: leave SCENARIO away, or change it by --set "
        "(model.config, machine.card, machine.dram, workload.sequences, ...)",
        asked.front(), choice.scenario.string()));
  if (choice.scenario.empty() && asked.empty())
    throw InputError(
        "which scenario? Give SCENARIO, a file or a name of `penstock-sim list scenarios`, or a question: "
        "--model qwen2.5-7b --gpu \"RTX 4090\" --ram 64GB");
  TomlDocument document = choice.scenario.empty() ? question_document(choice.question, !choice.profile.empty(),
                                                                      scenario_file(choice).parent_path(), defaults)
                                                  : read_toml(choice.scenario);
  apply_overrides(all_overrides(choice), document);
  put_cost(choice.cost, document);
  return document;
}

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
  if (schedule.micro_batch.sequences * schedule.micro_batches != scenario.sequences)
    differ("sequences per step", schedule.micro_batch.sequences * schedule.micro_batches, scenario.sequences);
}

}  // namespace

Scenario load_scenario_quietly(const ScenarioChoice& choice) {
  if (!choice.profile.empty()) read_profile(choice.profile);  // its errors are said of the file, not of an override
  std::string defaults;
  const TomlDocument document = document_of(choice, defaults);
  Scenario scenario = make_scenario(document, scenario_file(choice));
  if (!choice.scenario.empty()) return scenario;
  scenario.files.erase(scenario.files.begin());  // itself, which is no file
  scenario.text = document_text(document, scenario.path, scenario.path);
  scenario.notes.insert(scenario.notes.begin(), defaults);
  return scenario;
}

std::filesystem::path scenario_file(const ScenarioChoice& choice) {
  if (!choice.scenario.empty()) return choice.scenario;
  return choice.scenario_out.empty() ? "question" : choice.scenario_out;
}

void write_scenario(const ScenarioChoice& choice, const Scenario& scenario) {
  if (choice.scenario_out.empty()) return;
  CommandFiles files;
  files.reads(scenario.files);
  files.writes(choice.scenario_out, "--scenario-out");
  files.check();
  write_text_file(choice.scenario_out,
                  document_text(load_scenario_document(choice), scenario.path, choice.scenario_out));
  fmt::print(stderr, "penstock-sim: note: scenario written to {}\n", choice.scenario_out.string());
}

Scenario load_scenario(const ScenarioChoice& choice) {
  Scenario scenario = load_scenario_quietly(choice);
  for (const std::string& note : scenario.notes) tell(fmt::format("penstock-sim: note: {}\n", note));
  return scenario;
}

TomlDocument load_scenario_document(const ScenarioChoice& choice) {
  std::string defaults;
  return document_of(choice, defaults);
}

std::string planned_line(Scenario& scenario) {
  StatusLine status("planning");
  SearchOptions options;
  options.progress = status.searching("planning: ");
  const std::string plan = choose_open_policy(scenario, options);
  return plan.empty() ? plan : plan + "\n";
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

std::vector<Remedy> find_remedies(const Scenario& asked) {
  const StatusLine status("looking for what would make it fit");
  return remedies(asked);
}

}  // namespace penstock::sim
