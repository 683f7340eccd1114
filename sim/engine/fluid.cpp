#include "sim/engine/fluid.h"

#include <algorithm>

namespace penstock::sim {
namespace {

constexpr double kRising = -1;  // rate of an op that still rises

/// The level at which the first resource is used up by the rising ops, and which one; kUnlimited if none ever is.
struct Saturation {
  double level = kUnlimited;
  std::size_t resource = 0;
};

Saturation next_saturation(std::span<const FluidOp> ops, const ResourceVector& capacity) {
  ResourceVector left = capacity, load{};
  for (const FluidOp& op : ops) {
    const bool rising = op.rate == kRising;
    for (std::size_t r = 0; r < load.size(); ++r) {
      if (rising) {
        load[r] += (*op.demand)[r];
      } else {
        left[r] -= (*op.demand)[r] * op.rate;
      }
    }
  }
  Saturation first;
  for (std::size_t r = 0; r < load.size(); ++r) {
    if (load[r] <= 0) continue;
    const double level = std::max(left[r], 0.0) / load[r];
    if (level < first.level) first = {level, r};
  }
  return first;
}

}  // namespace

void share_max_min(std::span<FluidOp> ops, const ResourceVector& capacity) {
  for (FluidOp& op : ops) op.rate = kRising;
  std::size_t rising = ops.size();
  while (rising > 0) {
    const Saturation next = next_saturation(ops, capacity);
    std::size_t fixed = 0;
    // Ops that reach their largest rate before anything is used up. Fixing them all at once is safe: taking one out
    // never brings the next saturation down below this level.
    for (FluidOp& op : ops) {
      if (op.rate != kRising || op.largest_rate > next.level * (1 + kCapacityTolerance)) continue;
      op.rate = op.largest_rate;
      ++fixed;
    }
    if (fixed == 0) {
      for (FluidOp& op : ops) {
        if (op.rate != kRising || (*op.demand)[next.resource] <= 0) continue;
        op.rate = next.level;
        ++fixed;
      }
    }
    rising -= fixed;
  }
}

}  // namespace penstock::sim
