// A small but complete schedule, written by hand: states in DRAM, two weight slots in HBM, one forward and one backward
// visit per layer for all micro-batches, optimizer on the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

struct SmallOptions {
  int micro_batches = 3;
  int decoder_layers = 2;
  bool tied = false;
  bool sum_on_host = false;
  bool edges = true;  // false: none at all
};

/// 64 hidden, 128 intermediate, 2 heads of 32, 1 key-value head, vocabulary 128; micro-batches of 2 x 16 tokens.
/// The edges are all hazards, found by comparing all pairs of accesses, without those that others imply.
Schedule small_schedule(const SmallOptions& options = {});

/// Every pair of conflicting accesses as an edge, then without the implied ones. Quadratic: for tests.
void derive_edges(Schedule& schedule);

/// The op of that name. Throws if there is none.
Op& op_named(Schedule& schedule, std::string_view name);
/// Removes the op and every edge at it; later ids move down by one.
void remove_op(Schedule& schedule, std::string_view name);
/// Moves the op to the place of another one, which then follows it. Edges are derived anew.
void move_op(Schedule& schedule, std::string_view name, std::string_view before);
/// Index of the edge between two ops, -1 if there is none.
int edge_between(const Schedule& schedule, int from, int to, int distance);

}  // namespace penstock
