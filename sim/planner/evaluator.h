// Evaluates candidates on all cores and remembers what it has seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/planner/search.h"

namespace penstock::sim {

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
  /// Of the shape under any residency that HBM could hold.
  double shape_bound(const Candidate& shape, PolicyInput& input) const;

  /// Writes and simulates each schedule; those already known cost nothing. Candidates after the budget is spent are
  /// left out of the result.
  std::vector<Evaluated> evaluate(const std::vector<Evaluated>& candidates);

  const Scenario& scenario() const { return scenario_; }
  bool exhausted() const;
  bool stopped() const;
  std::int64_t ops() const { return ops_; }
  std::int64_t evaluated() const { return static_cast<std::int64_t>(known_.size()); }
  void allow(std::int64_t more_ops) { most_ops_ = ops_ + more_ops; }
  /// Everything seen so far, in a fixed order.
  std::vector<Evaluated> all() const;

 private:
  std::int64_t expected_ops(const Candidate& candidate) const;

  const Scenario& scenario_;
  const SearchOptions& options_;
  std::vector<PolicyInput> inputs_;  // one per thread
  std::map<Candidate, Evaluated> known_;
  std::int64_t ops_ = 0, most_ops_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace penstock::sim
