// What each op must read and write: the operand table of docs/schedule.md as code. That of template ops is made of
// shared/ir/values.h.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock {

/// One operand that an op needs or may have.
struct Operand {
  Value value;
  std::int64_t bytes = 0;
  bool required = true;
  bool any_micro_batch = false;  // of gradient_sum: which one is decided by the order of contributions
  bool at_least = false;         // workspace: a larger range is welcome
  std::optional<TemplateOperand> part = std::nullopt;  // which part it plays, of a template op

  bool fits(const Value& other) const {
    return other.tensor == value.tensor && other.layer == value.layer && other.version == value.version &&
           (any_micro_batch || other.micro_batch == value.micro_batch);
  }
};

struct Operands {
  std::vector<Operand> reads, writes;
};

/// Sizes of the regions, computed once per schedule.
class OperandTable {
 public:
  OperandTable(const Schedule& schedule, const Model& model);

  /// REQUIRES: op.layer is the layer of `work`, op.micro_batch >= 0 and the pass exists for the kind.
  Operands of(const Op& op, const TemplateWork& work) const;
  /// REQUIRES: op.layer names a layer (and op.micro_batch >= 0 for AccumulateWork).
  Operands of(const Op& op, const OptimizerWork& work) const;
  Operands of(const Op& op, const AccumulateWork& work) const;
  Operands of(const Op& op, const FinishGradientWork& work) const;
  Operands of(const Op& op, const StepScalarsWork& work) const;
  Operands of(const Op& op, const InputWork& work) const;

 private:
  Operand operand(TensorKind tensor, int layer, int version = 0, int micro_batch = -1) const;
  /// nullopt: the op has no such operand here.
  std::optional<Operand> operand(const Op& op, const TemplateWork& work, TemplateOperand part) const;
  /// Those that are a value of each of several chunks.
  void add_chunks(const Op& op, TemplateOperand part, Use use, Operands& operands) const;
  std::int64_t bytes(const Op& op, const TemplateWork& work, const Value& value) const;

  const Schedule& schedule_;
  const Model& model_;
  template <typename T>
  using ByPass = std::array<T, kAllPasses.size()>;
  template <typename T>
  using ByKind = std::array<T, kLayerKinds.size()>;
  using ByKeep = std::array<std::int64_t, kKeeps.size()>;
  ByKind<ByPass<std::span<const OperandUse>>> uses_{};
  struct Regions {  // of micro-batches of one size
    ByKind<ByKeep> kept{}, recomputed{};
    ByKind<ByPass<ByKeep>> workspace{};
  };
  Regions regions_, of_last_chunk_;
  int chunks_ = 1;
};

}  // namespace penstock
