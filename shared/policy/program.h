// Turns a sequential program into a schedule: the writer appends ops in an order that would be right if they ran
// one after the other; the builder derives the edges that keep every concurrent execution equal to it.
//
// Hazards (read after write, write after read, write after write, by bytes) within a step become distance-0 edges;
// hazards between a step and the next become distance-1 edges. An edge that lane order, the launch rule and other
// edges already imply is left out, so that every edge in the file carries weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

class Program {
 public:
  /// Starts from a schedule without buffers, ops and edges; its tiers are filled as buffers are placed.
  explicit Program(Schedule header);

  int add_lane(const std::string& name, LaneKind kind);
  /// Places `bytes` at the end of the tier's arena (kFieldAlignment-aligned). Returns the buffer's index.
  int add_buffer(const std::string& name, TierKind tier, std::int64_t bytes);
  /// Declares that `value` lies there before step 0.
  void add_initial(int buffer, const Value& value, std::int64_t bytes);
  /// Appends an op and returns its id.
  int add_op(Op op);
  /// An ordering that is the policy's wish, not a hazard (a barrier).
  void add_edge(int from, int to, int distance);

  const Schedule& schedule() const { return schedule_; }
  /// Derives the edges. The program is spent.
  Schedule finish();

 private:
  Schedule schedule_;
  std::vector<std::int64_t> used_bytes_;  // per tier
  std::vector<Edge> wishes_;
};

}  // namespace penstock
