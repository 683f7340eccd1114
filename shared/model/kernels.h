// What a template op executes, kernel by kernel: the list that the cost model prices, that FLOP counts sum over,
// and that calibration measures. Both backends execute exactly these kernels, in this order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

enum class KernelKind { matmul, attention_forward, attention_backward, elementwise };

/// One kernel, executed `count` times (chunks).
struct Kernel {
  KernelKind kind = KernelKind::elementwise;
  std::string_view name;  // static text: "qkv", "gate_up", "qkv weight gradient", "input norm", ...
  // matmul: [m, k] x [k, n]; `accumulates` if it adds to an existing fp32 (or bf16) result.
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;
  std::int64_t output_bytes = 0;  // of one element of the matmul's result: 2 or 4
  // attention: causal, grouped-query
  std::int64_t sequences = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t count = 1;
  double flops = 0;        // one execution. matmul: 2 m n k. Attention: as executed, causal counted half:
                           // forward 2 s h d L^2 (two products of 2 L^2 d, half of it), backward 2.5 times that.
  std::int64_t bytes = 0;  // one execution: each input read once, each output written once
};

/// The kernels of one template op. `writes_output`: for Pass::recompute, whether the op also makes the next
/// layer's input (block recompute); ignored for other passes. `accumulates`: for backward and loss, whether the
/// gradients add to what is there. `gradient_bytes`: of one element of the gradients of weights.
std::vector<Kernel> template_kernels(const Model& model, LayerKind kind, Pass pass, BatchShape batch,
                                     const LayoutOptions& options, bool writes_output = false, bool accumulates = true,
                                     std::int64_t gradient_bytes = 4);

/// Sum of count * flops.
double kernel_flops(const std::vector<Kernel>& kernels);

/// Model FLOPs of one optimizer step: forward + backward without recompute, causal attention counted half
/// (docs/design.md, "Counting"): 6 x (matmul parameters) x tokens + 3 x attention forward. The embedding lookup counts
/// nothing.
double model_flops(const Model& model, BatchShape whole_step);

}  // namespace penstock
