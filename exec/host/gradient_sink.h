// Where an op's weight gradients go.
//
// An op computes its own contribution to a tensor whole, in its arithmetic (fp32), and hands it over once: sum = sum +
// part is one addition per element and micro-batch. So the bits are the same whether micro-batches accumulate in one
// fp32 buffer or each part is written apart and summed by accumulate_host.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "shared/ir/schedule.h"

namespace penstock::exec {

template <class Real>
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// `part`, `count` elements from `offset` of the layer's flat order of gradients. Each element at most once per op.
  virtual void add(std::int64_t offset, const Real* part, std::int64_t count) = 0;
};

/// The gradient operand of a TemplateBinding.
class BoundGradient final : public GradientSink<float> {
 public:
  BoundGradient(void* gradient, ElementType type, bool accumulates, std::int64_t elements)
      : gradient_(gradient), type_(type), accumulates_(accumulates), elements_(elements) {}

  void add(std::int64_t offset, const float* part, std::int64_t count) override;
  /// Unless the op accumulates, sets to zero what no part covered: the padding between groups.
  void finish();

 private:
  void* gradient_;
  ElementType type_;
  bool accumulates_;
  std::int64_t elements_;
  std::vector<std::pair<std::int64_t, std::int64_t>> covered_;  // begin, end
};

}  // namespace penstock::exec
