// The template ops of one workload on the host, kernel by kernel, through the very code that runs them in training.
//
// Operands are random, and what an op reads was made by the ops before it, as in a step. Ops walk through several sets
// of operands, together larger than the caches, as layers do.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "exec/calibrate/calibration_ops.h"
#include "exec/host/kernel_clock.h"
#include "exec/memory/arena.h"
#include "exec/runtime/binding.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

class HostOps {
 public:
  explicit HostOps(const Scenario& scenario);
  HostOps(const HostOps&) = delete;
  HostOps& operator=(const HostOps&) = delete;

  /// The ops one by one; `progress` hears the kernels' op and the share that is done.
  void measure(KernelTables& tables, const std::function<void(const std::string& op, double share)>& progress);

 private:
  /// Where an operand lies in each set. Weights are the layer kind's own; everything else is shared by all ops.
  struct Place {
    std::int64_t offset = 0, bytes = 0;
  };
  using Key = std::pair<TemplateOperand, LayerKind>;
  static Key key(TemplateOperand operand, LayerKind kind);

  void place_operands();
  void fill(std::byte* set);
  TemplateBinding unbound(const CalibrationOp& op) const;
  TemplateBinding bind(const CalibrationOp& op, std::size_t set);
  void run(const CalibrationOp& op, std::size_t set, KernelClock* clock);

  const Model& model_;
  const PackedRows rows_;  // of a micro-batch, where rows are packed
  const LayoutOptions layout_;
  std::vector<CalibrationOp> ops_;
  std::map<Key, Place> places_;
  std::int64_t set_bytes_ = 0;
  std::vector<Arena> sets_;
};

}  // namespace penstock::exec
