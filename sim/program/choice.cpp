// Loading what the command line chooses: a scenario, or a question in the place of one.
#include <fmt/format.h>

#include "shared/command_files.h"
#include "shared/error.h"
#include "shared/files.h"
#include "shared/toml_reader.h"
#include "sim/planner/scenario_text.h"
#include "sim/program/commands.h"

namespace penstock::sim {
namespace {

/// `notes`: what is to be said of a question.
TomlDocument document_of(const ScenarioChoice& choice, std::vector<std::string>& notes) {
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
  TomlDocument document = choice.scenario.empty()
                              ? question_document(choice.question, !choice.profile.empty(),
                                                  scenario_file(choice).parent_path(), choice.overrides, notes)
                              : read_toml(choice.scenario);
  apply_overrides(all_overrides(choice), document);
  put_cost(choice.cost, document);
  return document;
}

}  // namespace

Scenario load_scenario_quietly(const ScenarioChoice& choice) {
  if (!choice.profile.empty()) read_profile(choice.profile);  // its errors are said of the file, not of an override
  std::vector<std::string> notes;
  const TomlDocument document = document_of(choice, notes);
  Scenario scenario = make_scenario(document, scenario_file(choice));
  if (!choice.scenario.empty()) return scenario;
  scenario.files.erase(scenario.files.begin());  // itself, which is no file
  scenario.text = document_text(document, scenario.path, scenario.path);
  scenario.notes.insert(scenario.notes.begin(), notes.begin(), notes.end());
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
  say_notes(scenario, "penstock-sim");
  return scenario;
}

TomlDocument load_scenario_document(const ScenarioChoice& choice) {
  std::vector<std::string> notes;
  return document_of(choice, notes);
}

}  // namespace penstock::sim
