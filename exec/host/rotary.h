// Rotary position embedding and, before it, the QK norm of Qwen3 (each head for itself) or OLMoE (all heads of q together,
// and of k), in place on q and k of the fused qkv.
//
// "Rotate half" as in Hugging Face's Llama: with h = head_dim / 2 and angle a_i = position * f_i,
//   y[i] = x[i] cos a_i - x[i+h] sin a_i,   y[i+h] = x[i+h] cos a_i + x[i] sin a_i,   i < h.
// with YaRN both times config.rope_attention_factor. Norm and rotation together round once.
// Source: Su et al., "RoFormer", 2021; f_i: shared/model/rotary_frequencies.h.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/model/activations.h"
#include "shared/model/model.h"
#include "shared/model/rotary_frequencies.h"

namespace penstock::exec {

/// Elements of q, and of k, that are normed together: of their weights too.
struct QkNormWidths {
  std::int64_t q = 0, k = 0;
};
QkNormWidths qk_norm_widths(const Model& model);

/// The position of a token is its distance from document_starts [tokens], places in its row; nullptr: from its row's
/// first. Of a chunk document_starts are its whole row's.
///
/// qkv [tokens, qkv_columns]: q and k are normed with q_norm, k_norm (qk_norm_widths; nullptr: no QK norm) and rotated. With
/// QK norm, q and k as they were go to qk_raw [tokens, query_columns + key_columns].
template <class Storage>
void rotate_queries_and_keys(const Model& model, BatchShape batch, const std::int32_t* document_starts,
                             const typename Storage::Element* q_norm, const typename Storage::Element* k_norm,
                             typename Storage::Element* qkv, typename Storage::Element* qk_raw);

/// Gradients of the above, in place on d_qkv. d_q_norm, d_k_norm are overwritten; nullptr without QK norm.
template <class Storage>
void rotate_queries_and_keys_backward(const Model& model, BatchShape batch, const std::int32_t* document_starts,
                                      const typename Storage::Element* q_norm, const typename Storage::Element* k_norm,
                                      const typename Storage::Element* qk_raw, typename Storage::Element* d_qkv,
                                      typename Storage::Real* d_q_norm, typename Storage::Real* d_k_norm);

}  // namespace penstock::exec
