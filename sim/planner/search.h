// The planner: the fastest schedule of a space that the machine holds.
//
// Shapes are taken in the order of their compute time, in rounds of a fixed size. Of each shape the residencies that
// fit are bounded from below (step_bound.h) and evaluated, best bound first: make_schedule, simulate. What cannot be
// faster than the best so far, by more than `tolerance`, is not evaluated; once no shape can, the scan ends. Then a
// local search in finer steps (neighbours of search_space.h) starts from the best few.
//
// NVMe is looked at only where nothing fits without: every step rewrites all that lies there, and drives wear. Where it
// is needed, and the fastest plan would wear it out soon (drive_use.h), of the plans at most `drive_sparing` slower the
// one is taken that writes least to it.
//
// Deterministic: rounds and batches have fixed sizes, decisions fall between them, and the budget is counted in ops,
// not in seconds. So the plan is the same whatever the number of threads, unless `stop` or `deadline` cut it short.
//
// Of steps so large that the budget pays for few of them (a million micro-batches), the one with the best bound is
// simulated and what the budget is left for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/planner/search_space.h"

namespace penstock::sim {

/// A candidate that was simulated.
struct Evaluated {
  Candidate candidate;
  double step_seconds = 0;
  double bound_seconds = 0;  // step_bound
  ArenaBytes arenas;
  std::string origin;  // "search", or the preset whose schedule it is
};

struct SearchProgress {
  std::string phase;        // "scan", "refine", "front"
  double done = 0;          // 0 .. 1
  double best_seconds = 0;  // 0: none yet
  std::int64_t evaluated = 0;
};

struct SearchOptions {
  int threads = 0;           // 0 = all cores
  double tolerance = 0.003;  // a plan this much faster may be missed
  /// So much slower a plan may be for writing less to a drive that would soon be worn out; 0: the fastest.
  double drive_sparing = 0.05;
  bool prune = true;  // false: evaluate everything that fits (for tests)
  bool refine = true;
  bool presets = true;                 // start from the presets' schedules, under the scenario's numerics
  bool front = true;                   // also look for the best with less memory
  std::int64_t most_ops = 12'000'000;  // simulated ops of all evaluations together
  /// Where the search ends with the best so far. The plan then depends on the machine's speed.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const SearchProgress&)> progress;
};

/// The candidate that comes closest to fitting.
struct Shortage {
  Candidate candidate;
  ArenaBytes arenas;
};

struct SearchResult {
  std::vector<Evaluated> best;             // at most one: the plan
  Shortage shortage;                       // if there is none
  std::vector<Evaluated> by_dram, by_hbm;  // Pareto fronts, ascending memory, descending step time
  std::vector<Evaluated> presets;          // those that fit, under the scenario's numerics
  std::int64_t shapes = 0, evaluated = 0, pruned = 0, ops = 0;
  bool complete = true;           // false: budget, deadline or stop ended it
  double open_bound_seconds = 0;  // if not complete: nothing that was not looked at beats this
};

/// Whether `stop` or `deadline` ends it now.
bool is_stopped(const SearchOptions& options);

SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

/// Whether any candidate of the space fits, and if not, what comes closest. Nothing is simulated.
struct Feasibility {
  bool fits = false;
  Shortage closest;  // or the candidate that fits
};
Feasibility feasible(const Scenario& scenario, const SearchSpace& space, int threads = 0);

}  // namespace penstock::sim
