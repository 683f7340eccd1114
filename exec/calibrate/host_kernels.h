// The host backend's kernels one by one, as the templates execute them, conversions between bf16 and fp32 included.
//
// Which conversion belongs to which kernel follows exec/host/decoder.cpp and loss.cpp, so that the kernels of an op add
// up to the op: a weight gradient widens both operands, zeroes its fp32 part and hands it to the gradient; the input
// gradient after it finds its left operand widened. What an op does once for all chunks (widening weights, handing over
// a gradient) is shared among the chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/ir/schedule.h"
#include "shared/model/kernels.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Executes kernels on made-up data. Operands in bf16 walk through a pool larger than the caches, as layers do.
class HostKernels {
 public:
  HostKernels(const Model& model, BatchShape batch, ElementType gradient_type);
  ~HostKernels();

  /// The `chunks` executions of `kernel` in one op.
  void run_op(const Kernel& kernel, std::int64_t chunks);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace penstock::exec
