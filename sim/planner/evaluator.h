// Evaluates candidates on all cores and remembers what it has seen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/planner/search.h"

namespace penstock::sim {

/// Simulated ops that evaluating the candidate takes, roughly: what the search's budget counts.
std::int64_t expected_ops(const Scenario& scenario, const Candidate& candidate);

/// Whether so many ops are so large a part of a search's budget that it pays for few such evaluations.
inline bool is_huge(std::int64_t ops, std::int64_t most_ops) { return ops > most_ops / 8; }

/// The step as the planner simulates it: without a timeline, and of a huge schedule not as many steps.
double planned_step_seconds(const Schedule& schedule, const Machine& machine);

class Evaluator {
 public:
  /// Both must outlive the evaluator.
  Evaluator(const Scenario& scenario, const SearchOptions& options);

  /// Calls `work(index, input)` for 0 .. count - 1 on all cores; `input` is the calling thread's own. The first
  /// exception (by index) is thrown on.
  void parallel(std::size_t count, const std::function<void(std::size_t, PolicyInput&)>& work);

  /// Nothing if the parameters contradict each other.
  std::optional<ArenaBytes> arenas(const Candidate& candidate, PolicyInput& input) const;
  double bound(const Candidate& candidate, PolicyInput& input) const;
  /// Bytes that a step of it writes to the drive.
  std::int64_t drive_writes(const Candidate& candidate, PolicyInput& input) const;
  /// Of the shape under any residency that HBM could hold.
  double shape_bound(const Candidate& shape, PolicyInput& input) const;

  /// Writes and simulates each schedule; those already known cost nothing. Candidates after the budget is spent are
  /// left out of the result. One whose schedule alone would cost a good part of the whole budget is evaluated only if
  /// what is left pays for it, or if it is the first: there is to be a plan for a step of any size, in bounded time.
  std::vector<Evaluated> evaluate(const std::vector<Evaluated>& candidates);

  const Scenario& scenario() const { return scenario_; }
  bool exhausted() const;
  bool stopped() const { return is_stopped(options_); }
  std::int64_t ops() const { return ops_; }
  std::int64_t evaluated() const { return static_cast<std::int64_t>(known_.size()); }
  void allow(std::int64_t more_ops) { most_ops_ = ops_ + more_ops; }
  /// Everything seen so far, in a fixed order.
  std::vector<Evaluated> all() const;

 private:
  bool affordable(std::int64_t cost) const;

  const Scenario& scenario_;
  const SearchOptions& options_;
  std::vector<PolicyInput> inputs_;  // one per thread
  std::map<Candidate, Evaluated> known_;
  std::int64_t ops_ = 0, most_ops_ = 0;
};

}  // namespace penstock::sim
