// What a template op executes, kernel by kernel: the list that the cost model prices, that FLOP counts sum over, and
// that calibration measures. Both backends execute exactly these kernels, each name as often as it is listed.
//
// The one place for all of them. A new kernel is an enumerator, its name and its line in kTemplateKernels here, and its
// execution in each backend (exec/host, exec/cuda), which says `mark(KernelId::...)` after it; tests hold what the
// backends execute against this list, and calibration measures whatever they mark.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/model/activations.h"
#include "shared/model/attention.h"
#include "shared/model/model.h"

namespace penstock {

enum class KernelKind { matmul, attention_forward, attention_backward, elementwise };

enum class KernelId : std::uint8_t {
  // embedding
  embedding,
  embedding_gradient_zero,
  embedding_backward,
  // decoder
  input_norm,
  qkv,
  rotary,
  qk_norm_and_rotary,
  attention,
  packed_attention,
  attention_output,
  middle_norm,
  gate_up,
  swiglu,
  down,
  down_input_gradient,
  swiglu_backward,
  down_weight_gradient,
  gate_up_weight_gradient,
  gate_up_input_gradient,
  middle_norm_backward,
  attention_output_weight_gradient,
  attention_output_input_gradient,
  attention_backward,
  packed_attention_backward,
  rotary_backward,
  qk_norm_and_rotary_backward,
  qkv_bias_gradient,
  qkv_weight_gradient,
  qkv_input_gradient,
  input_norm_backward,
  // experts, whose others are the decoder's
  router,
  expert_choice,
  expert_order,
  expert_rows,
  experts_gate_up,
  experts_swiglu,
  experts_down,
  expert_sum,
  expert_gradient_rows,
  experts_down_input_gradient,
  experts_swiglu_backward,
  experts_down_weight_gradient,
  experts_gate_up_weight_gradient,
  experts_gate_up_input_gradient,
  expert_gradient_sum,
  expert_choice_backward,
  router_weight_gradient,
  router_input_gradient,
  // head
  final_norm,
  logits,
  cross_entropy,
  projection_input_gradient,
  projection_weight_gradient,
  loss_sum,
  final_norm_backward,
  // no template's: the optimizer's, where the GPU does it
  adamw,
  finish_gradient,
  // decoder, of sequences that are cut
  keys_and_values,
  chunk_attention,
  chunk_attention_backward,
  queries,
  // experts, where the model asks for the load-balancing loss
  expert_balance,
};

struct KernelName {
  KernelId kernel;
  std::string_view name;  // in profiles and in messages
};

/// In the order of the enumerators.
inline constexpr std::array kKernelNames{
    KernelName{KernelId::embedding, "embedding"},
    KernelName{KernelId::embedding_gradient_zero, "embedding gradient zero"},
    KernelName{KernelId::embedding_backward, "embedding backward"},
    KernelName{KernelId::input_norm, "input norm"},
    KernelName{KernelId::qkv, "qkv"},
    KernelName{KernelId::rotary, "rotary"},
    KernelName{KernelId::qk_norm_and_rotary, "qk norm and rotary"},
    KernelName{KernelId::attention, "attention"},
    KernelName{KernelId::packed_attention, "packed attention"},
    KernelName{KernelId::attention_output, "attention output"},
    KernelName{KernelId::middle_norm, "middle norm"},
    KernelName{KernelId::gate_up, "gate_up"},
    KernelName{KernelId::swiglu, "swiglu"},
    KernelName{KernelId::down, "down"},
    KernelName{KernelId::down_input_gradient, "down input gradient"},
    KernelName{KernelId::swiglu_backward, "swiglu backward"},
    KernelName{KernelId::down_weight_gradient, "down weight gradient"},
    KernelName{KernelId::gate_up_weight_gradient, "gate_up weight gradient"},
    KernelName{KernelId::gate_up_input_gradient, "gate_up input gradient"},
    KernelName{KernelId::middle_norm_backward, "middle norm backward"},
    KernelName{KernelId::attention_output_weight_gradient, "attention output weight gradient"},
    KernelName{KernelId::attention_output_input_gradient, "attention output input gradient"},
    KernelName{KernelId::attention_backward, "attention backward"},
    KernelName{KernelId::packed_attention_backward, "packed attention backward"},
    KernelName{KernelId::rotary_backward, "rotary backward"},
    KernelName{KernelId::qk_norm_and_rotary_backward, "qk norm and rotary backward"},
    KernelName{KernelId::qkv_bias_gradient, "qkv bias gradient"},
    KernelName{KernelId::qkv_weight_gradient, "qkv weight gradient"},
    KernelName{KernelId::qkv_input_gradient, "qkv input gradient"},
    KernelName{KernelId::input_norm_backward, "input norm backward"},
    KernelName{KernelId::router, "router"},
    KernelName{KernelId::expert_choice, "expert choice"},
    KernelName{KernelId::expert_order, "expert order"},
    KernelName{KernelId::expert_rows, "expert rows"},
    KernelName{KernelId::experts_gate_up, "experts gate_up"},
    KernelName{KernelId::experts_swiglu, "experts swiglu"},
    KernelName{KernelId::experts_down, "experts down"},
    KernelName{KernelId::expert_sum, "expert sum"},
    KernelName{KernelId::expert_gradient_rows, "expert gradient rows"},
    KernelName{KernelId::experts_down_input_gradient, "experts down input gradient"},
    KernelName{KernelId::experts_swiglu_backward, "experts swiglu backward"},
    KernelName{KernelId::experts_down_weight_gradient, "experts down weight gradient"},
    KernelName{KernelId::experts_gate_up_weight_gradient, "experts gate_up weight gradient"},
    KernelName{KernelId::experts_gate_up_input_gradient, "experts gate_up input gradient"},
    KernelName{KernelId::expert_gradient_sum, "expert gradient sum"},
    KernelName{KernelId::expert_choice_backward, "expert choice backward"},
    KernelName{KernelId::router_weight_gradient, "router weight gradient"},
    KernelName{KernelId::router_input_gradient, "router input gradient"},
    KernelName{KernelId::final_norm, "final norm"},
    KernelName{KernelId::logits, "logits"},
    KernelName{KernelId::cross_entropy, "cross entropy"},
    KernelName{KernelId::projection_input_gradient, "projection input gradient"},
    KernelName{KernelId::projection_weight_gradient, "projection weight gradient"},
    KernelName{KernelId::loss_sum, "loss sum"},
    KernelName{KernelId::final_norm_backward, "final norm backward"},
    KernelName{KernelId::adamw, "adamw"},
    KernelName{KernelId::finish_gradient, "finish gradient"},
    KernelName{KernelId::keys_and_values, "keys and values"},
    KernelName{KernelId::chunk_attention, "chunk attention"},
    KernelName{KernelId::chunk_attention_backward, "chunk attention backward"},
    KernelName{KernelId::queries, "queries"},
    KernelName{KernelId::expert_balance, "expert balance"},
};

constexpr std::string_view kernel_name(KernelId kernel) { return kKernelNames[static_cast<std::size_t>(kernel)].name; }
/// nullopt: no kernel is called so.
std::optional<KernelId> find_kernel(std::string_view name);

// --- which kernels a pass has -------------------------------------------------------------------------------------

/// The parts that passes are made of; kernels.cpp says which pass makes which.
enum class Part {
  embed,
  embedding_overwrite,  // where the gradient is not added to
  embedding_gradient,
  make_qkv,
  hand_on_keys,   // to the chunks behind
  keep_queries,   // apart from the keys and values that were handed on
  make_context,   // attention
  make_middle,    // its output projection
  make_gate_up,   // the norm before the MLP
  gate_up_chunk,  // by chunks of tokens, as the next
  output_chunk,
  backward_begin,
  gate_up_again,  // by chunks
  backward_mlp,   // by chunks
  backward_rest,
  // experts instead of those of gate_up, output and MLP
  route,                // all tokens, as the next
  route_again,          //
  experts_order_chunk,  // by chunks of tokens, as the next
  experts_gate_up_chunk,
  experts_output_chunk,
  experts_output,  // all tokens
  experts_backward_begin,
  experts_gate_up_again,
  experts_backward,
  route_backward,  // all tokens
  head_begin,
  head_chunk,           // by chunks, as the next
  head_gradient_chunk,  // of input and projection
  head_loss,
  head_gradient,
};

/// What the formulas below are made of. `rows`: tokens of a chunk, or all of them.
struct KernelShape {
  const Model& model;
  std::int64_t rows = 0, gradient_bytes = 0;
  std::int64_t hidden = model.config.hidden, intermediate = model.config.intermediate,
               vocabulary = model.config.vocabulary;
  std::int64_t experts = model.config.experts.count, choices = rows * model.config.experts.per_token,
               width = model.config.experts.intermediate;  // of one expert
  std::int64_t qkv = model.qkv_columns(), query = model.query_columns(), key = model.key_columns();
};

/// [m, k] x [k, n]
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
};

enum class ProductResult {
  activation,  // bf16
  residual,    // bf16, another of its size is added on the way out
  gradient,    // of weights: added to what is there, or over it
  fp32,        // an activation in fp32
};

/// One line: `product` of matmuls, `bytes` of elementwise kernels, neither of attention.
struct TemplateKernel {
  Part part;
  KernelId kernel;
  KernelKind kind = KernelKind::elementwise;
  Product (*product)(const KernelShape&) = nullptr;
  ProductResult result = ProductResult::activation;
  std::int64_t (*bytes)(const KernelShape&) = nullptr;
  bool (*exists)(const ModelConfig&) = nullptr;  // nullptr: in every model
  bool (*only)(const BatchShape&) = nullptr;     // nullptr: whatever the rows are
  /// One product for each expert: of the product's rows m it has a part, or of a gradient's k.
  bool is_grouped = false;
};

namespace kernels_h {
using S = KernelShape;
using enum ProductResult;

constexpr TemplateKernel matmul(Part part, KernelId kernel, Product (*product)(const S&),
                                ProductResult result = activation) {
  return {part, kernel, KernelKind::matmul, product, result};
}
constexpr TemplateKernel grouped(Part part, KernelId kernel, Product (*product)(const S&),
                                 ProductResult result = activation) {
  TemplateKernel line = matmul(part, kernel, product, result);
  line.is_grouped = true;
  return line;
}
constexpr TemplateKernel elementwise(Part part, KernelId kernel, std::int64_t (*bytes)(const S&),
                                     bool (*exists)(const ModelConfig&) = nullptr) {
  return {part, kernel, KernelKind::elementwise, nullptr, activation, bytes, exists};
}
constexpr TemplateKernel attends(Part part, KernelId kernel, KernelKind kind, bool (*only)(const BatchShape&)) {
  return {part, kernel, kind, nullptr, activation, nullptr, nullptr, only};
}
constexpr bool windows(const BatchShape& b) { return b.kind == BatchKind::windows && !b.is_cut(); }
constexpr bool packed(const BatchShape& b) { return b.kind == BatchKind::packed && !b.is_cut(); }
constexpr bool cut(const BatchShape& b) { return b.is_cut(); }
constexpr bool has_norm(const ModelConfig& c) { return c.qk_norm; }
constexpr bool has_no_norm(const ModelConfig& c) { return !c.qk_norm; }
constexpr bool has_bias(const ModelConfig& c) { return c.qkv_bias; }
}  // namespace kernels_h

/// In the order of execution of each pass. Bytes: each input read once, each output written once; 2 is of bf16.
inline constexpr auto kTemplateKernels = [] {
  using namespace kernels_h;
  using enum KernelId;
  return std::array{
      elementwise(Part::embed, embedding, [](const S& s) { return 4 * s.rows * s.hidden; }),
      elementwise(Part::embedding_overwrite, embedding_gradient_zero,
                  [](const S& s) { return s.vocabulary * s.hidden * s.gradient_bytes; }),
      elementwise(Part::embedding_gradient, embedding_backward,
                  [](const S& s) { return s.rows * s.hidden * (2 + 2 * s.gradient_bytes); }),

      elementwise(Part::make_qkv, input_norm, [](const S& s) { return 4 * s.rows * s.hidden; }),
      matmul(Part::make_qkv, qkv,
             [](const S& s) {
               return Product{s.rows, s.qkv, s.hidden};
             }),
      // In place on q and k; with QK norm, which shares the kernel, the values before it are written (or read) too.
      elementwise(
          Part::make_qkv, rotary, [](const S& s) { return 4 * s.rows * (s.query + s.key); }, has_no_norm),
      elementwise(
          Part::make_qkv, qk_norm_and_rotary, [](const S& s) { return 6 * s.rows * (s.query + s.key); }, has_norm),
      elementwise(Part::hand_on_keys, keys_and_values, [](const S& s) { return 8 * s.rows * s.key; }),
      elementwise(Part::keep_queries, queries, [](const S& s) { return 4 * s.rows * s.query; }),
      attends(Part::make_context, attention, KernelKind::attention_forward, windows),
      attends(Part::make_context, packed_attention, KernelKind::attention_forward, packed),
      attends(Part::make_context, chunk_attention, KernelKind::attention_forward, cut),
      matmul(
          Part::make_middle, attention_output,
          [](const S& s) {
            return Product{s.rows, s.hidden, s.query};
          },
          residual),
      elementwise(Part::make_gate_up, middle_norm, [](const S& s) { return 4 * s.rows * s.hidden; }),
      matmul(Part::gate_up_chunk, gate_up,
             [](const S& s) {
               return Product{s.rows, 2 * s.intermediate, s.hidden};
             }),
      elementwise(Part::output_chunk, swiglu, [](const S& s) { return 6 * s.rows * s.intermediate; }),
      matmul(
          Part::output_chunk, down,
          [](const S& s) {
            return Product{s.rows, s.hidden, s.intermediate};
          },
          residual),

      elementwise(Part::backward_begin, middle_norm, [](const S& s) { return 4 * s.rows * s.hidden; }),
      matmul(Part::gate_up_again, gate_up,
             [](const S& s) {
               return Product{s.rows, 2 * s.intermediate, s.hidden};
             }),
      matmul(Part::backward_mlp, down_input_gradient,
             [](const S& s) {
               return Product{s.rows, s.intermediate, s.hidden};
             }),
      // Reads gate, up and the product's gradient; writes the gradients of gate and up, and the product once more.
      elementwise(Part::backward_mlp, swiglu_backward, [](const S& s) { return 12 * s.rows * s.intermediate; }),
      matmul(
          Part::backward_mlp, down_weight_gradient,
          [](const S& s) {
            return Product{s.hidden, s.intermediate, s.rows};
          },
          gradient),
      matmul(
          Part::backward_mlp, gate_up_weight_gradient,
          [](const S& s) {
            return Product{2 * s.intermediate, s.hidden, s.rows};
          },
          gradient),
      matmul(Part::backward_mlp, gate_up_input_gradient,
             [](const S& s) {
               return Product{s.rows, s.hidden, 2 * s.intermediate};
             }),

      // Experts. A row of theirs is a choice of a token.
      matmul(
          Part::route, router,
          [](const S& s) {
            return Product{s.rows, s.experts, s.hidden};
          },
          ProductResult::fp32),
      elementwise(Part::route, expert_choice, [](const S& s) { return 4 * s.rows * s.experts + 8 * s.choices; }),
      // Counts, sums of the counts, and where each row lies: the choices are read twice, both orders written.
      elementwise(Part::experts_order_chunk, expert_order, [](const S& s) { return 16 * s.choices; }),
      elementwise(Part::experts_gate_up_chunk, expert_rows, [](const S& s) { return 4 * s.choices * s.hidden; }),
      grouped(Part::experts_gate_up_chunk, experts_gate_up,
              [](const S& s) {
                return Product{s.choices, 2 * s.width, s.hidden};
              }),
      elementwise(Part::experts_output_chunk, experts_swiglu, [](const S& s) { return 6 * s.choices * s.width; }),
      grouped(Part::experts_output_chunk, experts_down,
              [](const S& s) {
                return Product{s.choices, s.hidden, s.width};
              }),
      elementwise(Part::experts_output_chunk, expert_sum,
                  [](const S& s) { return 2 * s.choices * s.hidden + 4 * s.rows * s.hidden; }),
      elementwise(
          Part::experts_output, expert_balance, [](const S& s) { return 4 * s.rows * s.experts + 4 * s.choices; },
          balances),

      matmul(
          Part::route_again, router,
          [](const S& s) {
            return Product{s.rows, s.experts, s.hidden};
          },
          ProductResult::fp32),
      elementwise(Part::route_again, expert_choice, [](const S& s) { return 4 * s.rows * s.experts + 8 * s.choices; }),
      elementwise(Part::experts_backward_begin, expert_order, [](const S& s) { return 16 * s.choices; }),
      elementwise(Part::experts_backward_begin, expert_rows, [](const S& s) { return 4 * s.choices * s.hidden; }),
      grouped(Part::experts_gate_up_again, experts_gate_up,
              [](const S& s) {
                return Product{s.choices, 2 * s.width, s.hidden};
              }),
      elementwise(Part::experts_backward, expert_gradient_rows, [](const S& s) { return 4 * s.choices * s.hidden; }),
      grouped(Part::experts_backward, experts_down_input_gradient,
              [](const S& s) {
                return Product{s.choices, s.width, s.hidden};
              }),
      // As swiglu backward, and each row's product with its gradient, which is the gradient of the row's weight.
      elementwise(Part::experts_backward, experts_swiglu_backward,
                  [](const S& s) { return 12 * s.choices * s.width + 8 * s.choices; }),
      grouped(
          Part::experts_backward, experts_down_weight_gradient,
          [](const S& s) {
            return Product{s.hidden, s.width, s.choices};
          },
          gradient),
      grouped(
          Part::experts_backward, experts_gate_up_weight_gradient,
          [](const S& s) {
            return Product{2 * s.width, s.hidden, s.choices};
          },
          gradient),
      grouped(Part::experts_backward, experts_gate_up_input_gradient,
              [](const S& s) {
                return Product{s.choices, s.hidden, 2 * s.width};
              }),
      elementwise(Part::experts_backward, expert_gradient_sum,
                  [](const S& s) { return 2 * s.choices * s.hidden + 2 * s.rows * s.hidden; }),
      elementwise(Part::route_backward, expert_choice_backward,
                  [](const S& s) { return 8 * s.rows * s.experts + 12 * s.choices; }),
      matmul(
          Part::route_backward, router_weight_gradient,
          [](const S& s) {
            return Product{s.experts, s.hidden, s.rows};
          },
          gradient),
      matmul(
          Part::route_backward, router_input_gradient,
          [](const S& s) {
            return Product{s.rows, s.hidden, s.experts};
          },
          residual),

      elementwise(Part::backward_rest, middle_norm_backward, [](const S& s) { return 8 * s.rows * s.hidden; }),
      matmul(
          Part::backward_rest, attention_output_weight_gradient,
          [](const S& s) {
            return Product{s.hidden, s.query, s.rows};
          },
          gradient),
      matmul(Part::backward_rest, attention_output_input_gradient,
             [](const S& s) {
               return Product{s.rows, s.query, s.hidden};
             }),
      attends(Part::backward_rest, attention_backward, KernelKind::attention_backward, windows),
      attends(Part::backward_rest, packed_attention_backward, KernelKind::attention_backward, packed),
      attends(Part::backward_rest, chunk_attention_backward, KernelKind::attention_backward, cut),
      elementwise(
          Part::backward_rest, rotary_backward, [](const S& s) { return 4 * s.rows * (s.query + s.key); }, has_no_norm),
      elementwise(
          Part::backward_rest, qk_norm_and_rotary_backward, [](const S& s) { return 6 * s.rows * (s.query + s.key); },
          has_norm),
      elementwise(
          Part::backward_rest, qkv_bias_gradient, [](const S& s) { return 2 * s.rows * s.qkv; }, has_bias),
      elementwise(Part::backward_rest, input_norm, [](const S& s) { return 4 * s.rows * s.hidden; }),
      matmul(
          Part::backward_rest, qkv_weight_gradient,
          [](const S& s) {
            return Product{s.qkv, s.hidden, s.rows};
          },
          gradient),
      matmul(Part::backward_rest, qkv_input_gradient,
             [](const S& s) {
               return Product{s.rows, s.hidden, s.qkv};
             }),
      elementwise(Part::backward_rest, input_norm_backward, [](const S& s) { return 8 * s.rows * s.hidden; }),

      elementwise(Part::head_begin, final_norm, [](const S& s) { return 4 * s.rows * s.hidden; }),
      matmul(Part::head_chunk, logits,
             [](const S& s) {
               return Product{s.rows, s.vocabulary, s.hidden};
             }),
      elementwise(Part::head_chunk, cross_entropy, [](const S& s) { return 4 * s.rows * s.vocabulary; }),
      matmul(Part::head_gradient_chunk, projection_input_gradient,
             [](const S& s) {
               return Product{s.rows, s.hidden, s.vocabulary};
             }),
      matmul(
          Part::head_gradient_chunk, projection_weight_gradient,
          [](const S& s) {
            return Product{s.vocabulary, s.hidden, s.rows};
          },
          gradient),
      elementwise(Part::head_loss, loss_sum, [](const S& s) { return 16 * s.rows; }),
      elementwise(Part::head_gradient, final_norm_backward, [](const S& s) { return 6 * s.rows * s.hidden; }),
  };
}();

/// One kernel, executed `count` times (chunks).
struct Kernel {
  KernelKind kind = KernelKind::elementwise;
  std::optional<KernelId> id;  // none: a pass over memory that no table has
  // matmul: [m, k] x [k, n], of all groups together; `accumulates` if it adds to an existing fp32 (or bf16) result.
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;
  std::int64_t output_bytes = 0;  // of one element of the matmul's result: 2 or 4
  // A product for each of so many experts, which share m, or k of a gradient; 1: one product. `skew` as in BatchShape.
  std::int64_t groups = 1;
  bool groups_share_k = false;
  double skew = 1;
  AttentionSpec attention;
  std::int64_t count = 1;
  double flops = 0;        // one execution. matmul: 2 m n k. Attention: AttentionSpec's
  std::int64_t bytes = 0;  // one execution: each input read once, each output written once

  /// "" without an id.
  std::string_view name() const { return id ? kernel_name(*id) : std::string_view(); }
};

/// The kernels of one template op. `writes_output`: for Pass::recompute, whether the op also makes the next
/// layer's input (block recompute); ignored for other passes. `accumulates`: for backward and loss, whether the
/// gradients add to what is there. `gradient_bytes`: of one element of the gradients of weights. `window`: the layer's.
std::vector<Kernel> template_kernels(const Model& model, LayerKind kind, Pass pass, BatchShape batch,
                                     const LayoutOptions& options, bool writes_output = false, bool accumulates = true,
                                     std::int64_t gradient_bytes = 4, std::int64_t window = 0);

/// Rows of each of `groups` experts, most first, that share `rows`: each next one has the same fraction of the one before
/// it, so that the first has `skew` times the mean. As many rows as possible are left to whole numbers; they add up.
std::vector<std::int64_t> rows_of_experts(std::int64_t rows, std::int64_t groups, double skew);

/// Sum of count * flops.
double kernel_flops(const std::vector<Kernel>& kernels);

/// Model FLOPs of one optimizer step: forward + backward without recompute, causal attention counted half
/// (docs/design.md, "Counting"): 6 x (matmul parameters) x tokens + 3 x attention forward. The embedding lookup counts
/// nothing. Frozen layers have no gradients of weights, and none below the lowest layer that trains has a backward.
double model_flops(const Model& model, BatchShape whole_step);

}  // namespace penstock
