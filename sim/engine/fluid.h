// Fluid sharing: at which rate each running op advances while they share resources.
//
// Given ops i with a largest rate c_i and a demand a_ir of resource r per unit of progress, and resources with capacity
// C_r, find rates x_i with
//
//   0 <= x_i <= c_i              for every op i
//   sum_i a_ir x_i <= C_r        for every resource r
//
// that are max-min fair: no x_i can grow without taking from an x_j that is no larger. Rates are normalised to solo
// speed (c_i = 1 for an op alone), so fairness is about slowdown: all ops held back by one resource slow down by the
// same factor. An op that asks for 100 GB/s and one that asks for 50 GB/s of a resource of 75 GB/s get 50 and 25. This
// is what a memory controller does that serves requests as they come; the alternative, equal bytes for everybody,
// would give 37.5 each, and a background copy would take half of DRAM from sixteen threads.
//
// Method (SimGrid's, progressive filling): raise all rates together; an op that reaches c_i stays there; where a
// resource is used up, the ops that use it stay; go on with the others.
#pragma once

#include <span>

#include "sim/engine/resources.h"

namespace penstock::sim {

struct FluidOp {
  const ResourceVector* demand = nullptr;
  double largest_rate = 1;
  double rate = 0;  // result
};

/// Fills in `rate`. A resource of capacity 0 stops the ops that need it.
void share_max_min(std::span<FluidOp> ops, const ResourceVector& capacity);

/// Rounding that a capacity forgives: a copy that asks for exactly the whole link is alone on it.
inline constexpr double kCapacityTolerance = 1e-12;

}  // namespace penstock::sim
