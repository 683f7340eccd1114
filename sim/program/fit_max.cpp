#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shared/compare/table.h"
#include "shared/error.h"
#include "shared/units.h"
#include "sim/front_desk.h"
#include "sim/planner/largest.h"
#include "sim/planner/progress.h"
#include "sim/program/commands.h"
#include "sim/program/memory_text.h"

namespace penstock::sim {
namespace {

using nlohmann::ordered_json;

/// What one policy can hold.
struct Most {
  std::string policy;
  std::int64_t layers = 0, parameters = 0, context = 0, sequences = 0;
};

std::vector<Most> all_of(const Scenario& scenario) {
  StatusLine status("looking for the largest");
  const auto most_of = [&](const Scenario& with, const std::string& name, const PolicyChoice& policy) {
    Most most{name};
    status.update(name + ": how many layers");
    most.layers = most_layers(with, policy);
    if (most.layers > 0) most.parameters = with_layers(with, most.layers).model.parameters;
    status.update(name + ": how long a context");
    most.context = longest_context(with, policy);
    status.update(name + ": how many sequences");
    most.sequences = most_sequences(with, policy);
    return most;
  };
  std::vector<Most> rows;
  if (!is_planned(scenario.policy.name)) rows.push_back(most_of(scenario, "the scenario's policy", scenario.policy));
  for (const PresetInfo& preset : presets()) {
    // Chunks decide how much a long context needs; a preset takes the scenario's.
    PolicyParameters parameters = preset_parameters(preset.name);
    parameters.numerics.chunking = scenario.policy.numerics.chunking;
    if (!preset.planned) {
      rows.push_back(most_of(scenario, preset.name, parameters));
      continue;
    }
    Scenario planned = scenario;
    if (preset.name != scenario.policy.name) {
      planned.policy = parameters;
      planned.fixed.clear();
    }
    rows.push_back(most_of(planned, preset.name, std::nullopt));
  }
  return rows;
}

std::string or_more(std::int64_t count, std::int64_t limit) {
  if (count == 0) return "none";
  return format_count(count) + (count >= limit ? " or more" : "");
}

}  // namespace

int fit_max(const FitOptions& options) {
  const Scenario scenario = load_scenario(options.scenario);
  write_scenario(options.scenario, scenario);
  const std::vector<Most> rows = all_of(scenario);
  const std::int64_t sequences = kMostSequencesTried / scenario.micro_batch * scenario.micro_batch;
  if (options.json) {
    ordered_json list = ordered_json::array();
    for (const Most& most : rows)
      list.push_back({{"policy", most.policy},
                      {"decoder_layers", most.layers},
                      {"parameters", most.parameters},
                      {"sequence_length", most.context},
                      {"sequences", most.sequences},
                      {"tokens_per_step", most.sequences * scenario.sequence_length}});
    fmt::print("{}", json_text({{"format", "penstock-fit-max/1"},
                                {"scenario", scenario.name},
                                {"machine", scenario.machine.name},
                                {"limits",
                                 {{"decoder_layers", kMostLayersTried},
                                  {"sequence_length", kLongestContextTried},
                                  {"sequences", sequences}}},
                                {"policies", list}}));
    return kExitDone;
  }
  const Machine& machine = scenario.machine;
  const std::string nvme =
      machine.nvme.bytes > 0 ? fmt::format("; NVMe {}", capacity_text(TierKind::nvme, machine)) : "";
  fmt::print("{}: layers shaped like {}'s, on {}\nHBM {}; DRAM {}{}\n\n", scenario.name, scenario.model.config.name,
             machine.name, capacity_text(TierKind::hbm, machine), capacity_text(TierKind::dram, machine), nvme);
  std::vector<std::vector<std::string>> table{{"most", "layers", "parameters", "context", "tokens per step"}};
  for (const Most& most : rows)
    table.push_back({most.policy, or_more(most.layers, kMostLayersTried),
                     fmt::format("{:.2f}e9", static_cast<double>(most.parameters) / 1e9),
                     or_more(most.context, kLongestContextTried),
                     or_more(most.sequences * scenario.sequence_length, sequences * scenario.sequence_length)});
  fmt::print(
      "{}\nEach column changes one thing of the scenario: the number of decoder layers; the length of one sequence per "
      "step;\nthe sequences per step, in micro-batches of {}. Presets have their own numerics.\n",
      table_text(table), scenario.micro_batch);
  return kExitDone;
}

}  // namespace penstock::sim
