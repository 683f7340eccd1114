// What a scenario leaves open under a preset that is the planner's (PresetInfo::planned), chosen in a few seconds for
// every command of both programs.
//
// Micro-batch and token chunks stay as the scenario has them, so that the choice moves data and never changes a bit of
// a result; `search` looks further. Deterministic as it is. Small chunks of the MLP are tried only if nothing fits
// otherwise, and never where [policy] gives a chunk; NVMe only if nothing fits at all without.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "sim/planner/search.h"

namespace penstock::sim {

/// What was asked of the planner, and its answer.
struct Decision {
  enum class Outcome {
    nothing_open,  // the preset is not the planner's, or everything is given: the scenario's policy stands
    planned,       // `chosen` is the fastest that was found
    nothing_fits,  // `chosen` comes closest, and needs `arenas`
    nothing_sound  // what is given allows no schedule to start from: the scenario's policy stands
  };
  Outcome outcome = Outcome::nothing_open;
  std::set<std::string> given;  // keys that were not the planner's to choose
  Candidate chosen;             // numerics and all; the preset's name is the scenario's
  ArenaBytes arenas;            // of `chosen`
  double step_seconds = 0;      // predicted; 0 unless planned
  double bound_seconds = 0;     // no schedule of these choices beats it (step_bound.h)
  std::string binding;          // what makes that bound: why no more was to be had from these choices
  std::int64_t evaluated = 0;   // schedules simulated

  bool chose() const { return outcome == Outcome::planned || outcome == Outcome::nothing_fits; }
};

/// The fastest plan found for the capacities of the scenario's machine, or the one that comes closest to fitting. Of
/// `how` threads, deadline, stop and progress are taken, and most_ops where it is less than the usual.
/// Throws InputError for a figure that the machine lacks.
Decision decide(const Scenario& scenario, const SearchOptions& how = {});

/// `search`, and where nothing of `space` fits, of the choices that need least memory (compact_space).
SearchResult search_or_least(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

/// Puts what was chosen into the scenario that it was decided for, and fixes it: it is not planned again.
void apply(const Decision& decision, Scenario& scenario);

/// "planned: micro-batch 2, one group, ... (120 schedules simulated)"; empty if nothing was open.
std::string decision_text(const Decision& decision);

}  // namespace penstock::sim
