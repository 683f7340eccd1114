// Forms of the grouped weight gradients that may be faster than the product's, for experts_bench alone.
//
// Such a product of an expert with few rows is a short sum (1,024 rows are 16 pieces of 64) behind which a whole tile of fp32
// is read and written: of Qwen3-30B-A3B's down matrices with 16,384 tokens 0.8 GB each way, beside 412 GFLOP. The product's
// form (128 x 256, both groups of warps on one tile) does one after the other (docs/experts.md).
#pragma once

#include <vector>

#include "exec/cuda/grouped_matmul.h"

namespace penstock::exec {

struct WeightGradientForm {
  const char* name;
  /// As grouped_weight_gradient, into fp32.
  void (*run)(const ExpertRows& rows, const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w,
              std::int64_t stride, std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace,
              Stream stream);
};

/// Empty without CUTLASS.
std::vector<WeightGradientForm> weight_gradient_forms();

}  // namespace penstock::exec
