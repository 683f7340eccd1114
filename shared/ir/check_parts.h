// The parts of check_schedule, for checker.cpp and its tests only. Each reports what it finds in a deterministic
// order.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shared/ir/checker.h"
#include "shared/ir/segments.h"

namespace penstock {

/// Collects faults up to a limit; further ones are dropped.
class FaultList {
 public:
  explicit FaultList(std::size_t limit) : limit_(limit) {}

  bool full() const { return faults_.size() >= limit_; }
  std::size_t room() const { return limit_ - faults_.size(); }
  void add(FaultKind kind, int first_op, int second_op, std::string text) {
    if (!full()) faults_.push_back({kind, first_op, second_op, std::move(text)});
  }
  std::vector<Fault> take() { return std::move(faults_); }

 private:
  std::size_t limit_;
  std::vector<Fault> faults_;
};

/// Indices, ranges, ids, numbers that could overflow; capacities. Everything that the other parts rely on: returns
/// false if they must not run.
bool check_structure(const Schedule& schedule, FaultList& faults);

/// Each op by itself: lane, tiers, operands and their sizes (docs/schedule.md has the table). And the counts per step:
/// one optimizer op per layer, every norm partial in the norm once.
void check_operands(const Schedule& schedule, const Model& model, FaultList& faults);

/// Acyclic over unrolled steps, and ids are a topological order. Returns false if not: clocks mean nothing then.
bool check_cycles(const Schedule& schedule, FaultList& faults);

/// Accesses to the same bytes are ordered, over two steps.
void check_races(const Schedule& schedule, const Segments& segments, FaultList& faults);

/// Executes two steps in id order on labels instead of bytes: what each read finds, which contributions each gradient
/// holds.
void check_values(const Schedule& schedule, const Segments& segments, FaultList& faults);

/// Bytes of a value by the formulas of shared/model, -1 if there is no such value in this schedule (a layer that does
/// not exist, a workspace). For `kept` and `recomputed` at the keep level given.
std::int64_t value_bytes(const Schedule& schedule, const Model& model, const Value& value, Keep keep);

}  // namespace penstock
