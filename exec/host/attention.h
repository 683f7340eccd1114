// Attention as shared/model/attention.h has it, softmax scale 1 / sqrt(head_dim), in blocks of queries, so that no
// matrix of sequence_length^2 exists.
//
// Probabilities are never stored: they stay in the arithmetic's type, and backward makes them again from lse.
#pragma once

#include <cstdint>

#include "shared/model/attention.h"

namespace penstock::exec {

/// Of a chunk: keys and values of its sequence so far, its own among them, [AttentionSpec::keys(), 2 kv_heads head_dim],
/// instead of those in qkv; and for backward the sum of their gradient, to which it is added or, where the chunk is the
/// sequence's last, which it overwrites, and its queries, where they were kept without the rest of qkv.
template <class Storage>
struct ChunkKeys {
  const typename Storage::Element* kv = nullptr;
  typename Storage::Real* gradient = nullptr;
  bool adds = false;
  const typename Storage::Element* queries = nullptr;  // [tokens, query_columns]; nullptr: in qkv
};

/// `document_starts` [sequences, sequence_length]: the place in the row where each place's document begins, ascending;
/// nullptr in windows; of a chunk, its whole row's. Blocks of queries do not look at the keys before the first document
/// that they have a part of.
///
/// qkv [tokens, qkv_columns] -> context [tokens, query_columns], lse [sequences, heads, sequence_length] (natural log).
template <class Storage>
void attention_forward(const AttentionSpec& spec, const std::int32_t* document_starts,
                       const typename Storage::Element* qkv, const ChunkKeys<Storage>& keys,
                       typename Storage::Element* context, typename Storage::Real* lse);

/// d_context [tokens, query_columns] -> d_qkv [tokens, qkv_columns], overwritten. Source of the formulas: Dao et al.,
/// "FlashAttention", 2022: P = exp(scale S - lse), dS = P (dP - rowsum(d_context context)). Of a chunk, whose own keys
/// and values have the whole of their gradient then, it is rounded to d_qkv.
template <class Storage>
void attention_backward(const AttentionSpec& spec, const std::int32_t* document_starts,
                        const typename Storage::Element* qkv, const ChunkKeys<Storage>& keys,
                        const typename Storage::Element* context, const typename Storage::Real* lse,
                        const typename Storage::Element* d_context, typename Storage::Element* d_qkv);

}  // namespace penstock::exec
