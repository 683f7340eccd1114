// The commands of penstock-sim. Each takes its options as parsed, writes its result to standard output (a table, or
// JSON with `json`) and returns an exit code of shared/error.h. Errors are thrown, before anything is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/scenario/scenario_choice.h"
#include "shared/toml_reader.h"
#include "sim/program/question.h"

namespace penstock::sim {

/// A scenario file, or a question in the place of one, with what the command line changes in it.
struct ScenarioChoice : ScenarioFileChoice {  // no scenario: the question's
  Question question;
  CostOptions cost;
  std::filesystem::path scenario_out;  // empty: the scenario is not written
};
/// Says the scenario's notes on standard error.
Scenario load_scenario(const ScenarioChoice& choice);
Scenario load_scenario_quietly(const ScenarioChoice& choice);
/// Its keys, with the same overrides.
TomlDocument load_scenario_document(const ScenarioChoice& choice);
/// What it is called: the file, or for a question the file that it is to be written to, or "question".
std::filesystem::path scenario_file(const ScenarioChoice& choice);
/// Writes what `--scenario-out` asks for, and says so on standard error. Throws InputError if `scenario` was read from
/// there.
void write_scenario(const ScenarioChoice& choice, const Scenario& scenario);

struct FitOptions {
  ScenarioChoice scenario;
  bool max = false;
  bool ours = false;  // as penstock-exec would run it, whatever system the preset stands for
  bool json = false;
};
/// Bytes per tier and phase, and for a preset of another system what its code adds. Exit 3, the table written all the
/// same, if they exceed a tier.
int fit(const FitOptions& options);
/// `max`: the largest model, the longest context, the most tokens per step under each policy.
int fit_max(const FitOptions& options);

struct SimulateCommandOptions {
  ScenarioChoice scenario;
  std::filesystem::path schedule;  // empty: the policy writes one
  std::filesystem::path timeline, trace, html;
  bool ignore_capacity = false;
  bool json = false;
};
int simulate_command(const SimulateCommandOptions& options);

struct PlanOptions {
  ScenarioChoice scenario;
  std::filesystem::path output;
  bool ignore_capacity = false;
  bool json = false;
};
int plan(const PlanOptions& options);

struct SearchCommandOptions {
  ScenarioChoice scenario;
  std::filesystem::path output, scenario_out,
      html;                // the schedule, the scenario that reproduces it; empty: not written
  double seconds = 0;      // 0: no limit, and the same plan on every machine
  double tolerance = 0.3;  // percent
  int threads = 0;         // 0: all cores
  bool no_front = false;
  bool json = false;
};
/// The fastest schedule that the machine holds. Exit 3 with the closest one if none does.
int search_command(const SearchCommandOptions& options);

struct SweepOptions {
  ScenarioChoice scenario;
  std::vector<std::string> vary;  // "key=value,value,..."
  std::string format = "md";      // md, csv, json
  std::filesystem::path html;
  bool search = false;  // the planner's schedule for each row instead of the scenario's policy
  int threads = 0;
  bool json = false;
};
/// One prediction for every combination; rows that do not fit, or contradict themselves, say so.
int sweep(const SweepOptions& options);

struct ShopOptions {
  std::string model;  // as of a question
  Question machine;   // its --gpu, --host, --ram and --drive: instead of the catalogue's machines
  std::filesystem::path scenario_out;
  CostOptions cost;
  std::filesystem::path catalogue;                  // machines and prices; empty: those of the catalogue
  std::filesystem::path own;                        // a scenario, hardware file or profile: what it should get next
  std::optional<double> tokens_per_second, budget;  // one of them; euros
  std::int64_t sequence_length = 0;                 // 0: the usual, or as many positions as the model has
  int sequences = 160;
  bool workload_given = false;  // either of these two
  std::filesystem::path html;
  int threads = 0;
  bool json = false;
};
/// The cheapest machine that is fast enough, or the fastest for the money; of `own`, its upgrades by what a euro gains.
/// Exit 3, with what binds, if there is none.
int shop(const ShopOptions& options);

struct CheckOptions {
  std::filesystem::path schedule;
  bool json = false;
};
int check(const CheckOptions& options);

struct CompareOptions {
  std::filesystem::path predicted, measured;
  std::filesystem::path schedule;  // empty and no scenario: the one beside them (timeline_schedule.h)
  ScenarioChoice scenario;         // may be empty
  std::filesystem::path trace, html;
  bool json = false;
};
int compare(const CompareOptions& options);

struct ValidateOptions {
  std::filesystem::path folder;
  std::filesystem::path hardware;  // instead of the recordings' profiles
  bool fits = false;               // only whether the rows fit that were published as fitting
  bool all = false;                // every row of tables, not only their errors by system and machine
  bool json = false;
};
int validate(const ValidateOptions& options);

struct ListOptions {
  std::string what;              // presets, models, hardware, scenarios, policy; empty: all but policy
  std::filesystem::path folder;  // the catalogue; empty: catalogue_folder()
  bool json = false;
};
int list(const ListOptions& options);

}  // namespace penstock::sim
