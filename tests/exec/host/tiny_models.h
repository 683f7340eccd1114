// Models small enough to differentiate numerically, and both ways to run them whole: the kernels in double, and the
// templates in bf16 as the executor binds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "exec/runtime/binding.h"
#include "shared/data/packing.h"
#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock::exec {

/// Odd sizes throughout: nothing is a multiple of a vector. Two decoder layers, grouped-query attention.
ModelConfig tiny_llama();  // untied, llama3 frequency scaling
ModelConfig tiny_qwen2();  // tied, qkv bias
ModelConfig tiny_qwen3();  // QK norm, head_dim apart from hidden / heads
// Mixtures of experts, as tests/scripts/oracles/experts.py has them.
ModelConfig tiny_qwen3_moe();  // three layers, the middle one dense
ModelConfig tiny_mixtral();
ModelConfig tiny_olmoe();  // QK norm over all heads, weights that do not add up to 1

/// The rows of a micro-batch; labels and document starts where they are packed.
struct TinyRows {
  std::vector<std::int32_t> tokens, labels, document_starts;

  TinyRows(std::vector<std::int32_t> tokens_alone) : tokens(std::move(tokens_alone)) {}  // NOLINT: windows are tokens
  TinyRows(const PackedRows& rows) : tokens(rows.tokens), labels(rows.labels), document_starts(rows.document_starts) {}
};

/// Weights per layer in flat order, padding zero, each exact in bf16; norm weights around 1.
std::vector<std::vector<double>> tiny_weights(const Model& model);
/// [sequences, sequence_length + 1]
std::vector<std::int32_t> tiny_tokens(const Model& model, BatchShape batch);

struct WholeRun {
  double loss = 0;     // sum of token losses
  double balance = 0;  // the load-balancing loss, without its factor
  std::vector<std::vector<double>>
      gradients;  // per layer, gradient_elements each, of loss * loss_scale + factor * balance
};

/// Embedding, decoder layers and head through the kernels with DoubleStorage. `gate_up_in_chunks`: backward makes
/// gate_up again, chunk by chunk. A batch that is cut is one sequence: forward of its chunks from the first to the last,
/// then backward from the last to the first.
WholeRun run_in_double(const Model& model, BatchShape batch, const Chunking& chunking,
                       const std::vector<std::vector<double>>& weights, const TinyRows& rows, double loss_scale,
                       bool gate_up_in_chunks);

/// What the gradients of run_in_double are of: loss_scale times the sum of token losses, and the load-balancing loss.
double loss_in_double(const Model& model, BatchShape batch, const Chunking& chunking,
                      const std::vector<std::vector<double>>& weights, const TinyRows& rows, double loss_scale);

/// How run_templates binds.
struct TemplateRun {
  Keep keep = Keep::everything;
  Chunking chunking = {};
  ElementType gradient_type = ElementType::fp32;
  std::size_t shift_bytes = 0;   // every buffer starts this far behind an aligned address; a multiple of 4
  bool block_recompute = false;  // recompute also makes the layer's output again, and it is compared
  double loss_scale = 1.0;
  double trained_tokens = 1.0;  // of packed rows, whose gradients are divided by it
};

struct TemplateResult {
  std::vector<double> losses;                        // per micro-batch
  std::vector<double> balances;                      // likewise, of a model that asks for it
  std::vector<std::vector<std::byte>> gradients;     // per layer, of gradient_type
  std::vector<std::vector<std::uint16_t>> boundary;  // last micro-batch: input of layer 1..n+1, index 0 unused
  std::vector<std::uint16_t> input_gradient;         // last micro-batch: gradient with respect to layer 1's input
};

/// Forward, recompute where the keep level asks for it, loss and backward of all micro-batches, one after the other,
/// gradients accumulating.
TemplateResult run_templates(const Model& model, BatchShape batch, const std::vector<std::vector<double>>& weights,
                             const std::vector<TinyRows>& micro_batches, const TemplateRun& options);

std::vector<double> widened_gradient(const std::vector<std::byte>& gradient, ElementType type);

}  // namespace penstock::exec
