// Launchers of the own kernels: everything between the matmuls. All asynchronous on `stream`, all deterministic (sums
// in a fixed order, no atomics), bf16 in and out as uint16_t, arithmetic in fp32. Rows are contiguous. Where a row's
// length is a multiple of 8, pointers must be aligned to 16 bytes; other lengths take a slower path.
#pragma once

#include <cstdint>

#include "exec/cuda/stream.h"
#include "shared/ir/schedule.h"

namespace penstock::exec {

/// Where a gradient lands: fp32 or bf16, added to what is there or overwriting it.
struct GradientTarget {
  void* data = nullptr;
  ElementType type = ElementType::fp32;
  bool accumulates = false;

  GradientTarget at(std::int64_t elements) const {
    return {static_cast<char*>(data) + elements * element_bytes(type), type, accumulates};
  }
};

// --- RMSNorm (rms_norm.cu) ------------------------------------------------------------------------------------------

/// Longest row the kernels take: 32768 where 8 divides it, else 16384.
void rms_norm_forward(const std::uint16_t* x, const std::uint16_t* weight, std::uint16_t* y, std::int64_t rows,
                      std::int64_t columns, float epsilon, Stream stream);

/// d_x = gradient through the norm (+ residual if not nullptr). d_x may be residual or d_y. `partials`: fp32
/// [kReductionRows, columns]; one row per block, added up in row order into d_weight.
void rms_norm_backward(const std::uint16_t* x, const std::uint16_t* weight, const std::uint16_t* d_y,
                       const std::uint16_t* residual, std::uint16_t* d_x, GradientTarget d_weight, float* partials,
                       std::int64_t rows, std::int64_t columns, float epsilon, Stream stream);

// --- column sums (column_sum.cu) ------------------------------------------------------------------------------------

/// target[c] = sum over rows r of partials[r * stride + c], in row order; nothing for a target of no data (a frozen
/// layer's, as of rms_norm_backward and rotary_backward).
void reduce_partials(const float* partials, std::int64_t rows, std::int64_t stride, std::int64_t columns,
                     GradientTarget target, Stream stream);

/// Bias gradient: the column sums of bf16 [rows, columns].
void column_sum(const std::uint16_t* values, std::int64_t rows, std::int64_t columns, GradientTarget target,
                float* partials, Stream stream);

// --- QK norm and rotary embedding (rotary.cu) -----------------------------------------------------------------------

inline constexpr int kMostRotaryPairs = 256;

struct Rotary {
  std::int64_t tokens = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t past = 0;  // of a chunk: the place in its row of the first token
  float epsilon = 0;
  const std::uint16_t* q_norm = nullptr;  // [head_dim], or of all heads of q; nullptr: no QK norm
  const std::uint16_t* k_norm = nullptr;
  bool norm_is_whole = false;                     // one norm for all heads of q, one for those of k
  const std::int32_t* document_starts = nullptr;  // [tokens], of a chunk its whole row's: places in the row; nullptr: 0
                                                  // for all. A token's position is its distance from there
  float factor = 1;                               // of cosines and sines
  double frequencies[kMostRotaryPairs] = {};      // of pair i = (i, i + head_dim / 2), radians per position
};

/// With the frequencies of shared/model/rotary_frequencies.h.
Rotary make_rotary(const Model& model, BatchShape batch);

/// In place on q and k of packed qkv. With QK norm the values before it are saved to qk_raw [tokens, (heads + kv_heads)
/// head_dim].
void rotary_forward(const Rotary& rotary, std::uint16_t* qkv, std::uint16_t* qk_raw, Stream stream);

/// In place on d_qkv. With QK norm: reads qk_raw, adds up the norms' weight gradients through `partials`
/// (kReductionRows rows of both norms' widths).
void rotary_backward(const Rotary& rotary, std::uint16_t* d_qkv, const std::uint16_t* qk_raw, GradientTarget d_q_norm,
                     GradientTarget d_k_norm, float* partials, Stream stream);

// --- SwiGLU (swiglu.cu) ----------------------------------------------------------------------------------------------

/// gate_up [rows, 2 intermediate]: gate, then up. product = silu(gate) * up.
void swiglu_forward(const std::uint16_t* gate_up, std::uint16_t* product, std::int64_t rows, std::int64_t intermediate,
                    Stream stream);
/// Writes product again (backward needs it for the down projection's gradient) and d_gate_up.
void swiglu_backward(const std::uint16_t* gate_up, const std::uint16_t* d_product, std::uint16_t* product,
                     std::uint16_t* d_gate_up, std::int64_t rows, std::int64_t intermediate, Stream stream);

// --- embedding (embedding.cu) ----------------------------------------------------------------------------------------

/// tokens: [sequences, BatchShape::token_row]; only the first `length` of each row are inputs. The input op has seen to it
/// that they are in the vocabulary. Any other bytes, as a rehearsal or an aborted run may find there, count as its last id:
/// no kernel reads or writes outside its tables.
void embedding_forward(const std::int32_t* tokens, const std::uint16_t* weight, std::uint16_t* output, BatchShape batch,
                       std::int64_t hidden, std::int64_t vocabulary, Stream stream);

/// Sums each token's rows of d_output. Sorted by token and place they form runs, which are cut into segments: rows are
/// added in order within a segment, in parallel over segments, and then a run's segments in order. A segment has 32
/// rows, or more where a micro-batch has more than 4096, so that a run's length hardly matters, and the bits depend on
/// the tokens and the values alone. Overwriting writes the rows of these tokens alone: call embedding_gradient_zero
/// before it. `order`: Activation::token_order; `partials`: fp32 [kReductionRows, hidden].
void embedding_backward(const std::int32_t* tokens, const std::uint16_t* d_output, GradientTarget gradient,
                        std::int32_t* order, float* partials, BatchShape batch, std::int64_t hidden,
                        std::int64_t vocabulary, Stream stream);
void embedding_gradient_zero(GradientTarget gradient, std::int64_t hidden, std::int64_t vocabulary, Stream stream);

// --- loss (loss.cu) --------------------------------------------------------------------------------------------------

/// What the places of a micro-batch are to predict: place p of sequence s ids[s * row + p].
struct Targets {
  const std::int32_t* ids = nullptr;
  std::int64_t row = 0, length = 0;

  /// Of windows the tokens [sequences, length + 1] shifted by one, of packed rows the labels [sequences, length].
  static Targets of_windows(const std::int32_t* tokens, std::int64_t length) {
    return {tokens + 1, length + 1, length};
  }
  static Targets of_labels(const std::int32_t* labels, std::int64_t length) { return {labels, length, length}; }
};

/// Factor of every gradient: 1 / *trained_tokens (device memory), or where that is nullptr `value`.
struct LossScale {
  float value = 1;
  const double* trained_tokens = nullptr;
};

/// `rows` rows of logits from row `first_row` of the micro-batch on, turned into their gradient in place:
/// (softmax - one_hot(target)) * scale, or 0 where the target is kIgnoredLabel. row_stats [tokens, 4]: largest logit, sum
/// of exp(logit - largest), target's logit, loss; 0 where it is ignored.
void loss_rows(std::uint16_t* logits, const Targets& targets, float* row_stats, std::int64_t first_row,
               std::int64_t rows, std::int64_t vocabulary, const LossScale& scale, Stream stream);
/// loss = sum of row_stats[r][3], in fp64, in a fixed order.
void loss_sum(const float* row_stats, std::int64_t tokens, double* loss, Stream stream);

}  // namespace penstock::exec
