// The options of a question (question.h) and of what a training costs.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/program/commands.h"

namespace penstock::sim {

/// --model, --gpu and the rest, which stand for SCENARIO, and --tokens and the rest.
void add_question(CLI::App* command, ScenarioChoice& choice);
/// The machine of a question alone: --gpu, --host, --ram, --drive.
void add_question_machine(CLI::App* command, Question& question);
/// --scenario-out, where the command has none of its own.
void add_scenario_out(CLI::App* command, ScenarioChoice& choice);
/// --tokens and the rest; `priced`: machines have their prices from elsewhere, and --price is not taken.
void add_cost(CLI::App* command, CostOptions& cost, bool priced = false);

}  // namespace penstock::sim
