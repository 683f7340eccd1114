// What would make a scenario fit that does not: one key changed, everything else as it is.
//
// Tried in this order, class by class, until three are found; within a class the fastest comes first:
//   1. The same mathematics. run.deterministic = false; where the scenario fixes choices under a planned policy, each
//   of
//      them left to the planner; of a preset, keep levels, places and rings that need less; smaller chunks of the MLP
//      and of the loss, a smaller micro-batch (these change the order of additions); of a preset, the planner instead.
//   2. Other numerics: moments and gradient sums in bf16, no clipping, states in bf16.
//   3. Another machine: more DRAM, more HBM.
//   4. Another task: fewer sequences per step, shorter ones, fewer layers.
// Whether something fits is the planner's own answer (compact_space), or that of the preset's arenas. A drive is the
// planner's to use where the machine has one; a preset is asked to.
//
// Deterministic, and bounded: each trial looks at arenas alone; those that are shown are planned and simulated in a
// short search.
#pragma once

#include <string>
#include <vector>

#include "shared/scenario/scenario.h"

namespace penstock::sim {

struct Remedy {
  std::string key, value;        // as `--set KEY=VALUE` takes them: "run.deterministic", "false"
  std::string cost;              // what it costs besides time
  double step_seconds = 0;       // predicted, of what a short search finds
  double tokens_per_second = 0;  // then
};

inline constexpr int kMostRemedies = 3;

/// At most kMostRemedies, the one that costs least first; none if no single key is enough. `scenario` as it was read:
/// before anything was planned. `threads`: 0 = all cores.
/// `machine_is_there`: on the machine that it is, so that class 3 is left out, and a drive is one that it has: a folder on
/// it where the scenario names none.
std::vector<Remedy> remedies(const Scenario& scenario, int threads = 0, bool machine_is_there = false);

/// "One key would make it fit: run.deterministic = false (...); or ..."; says so if there is none.
std::string remedies_text(const std::vector<Remedy>& remedies);

}  // namespace penstock::sim
