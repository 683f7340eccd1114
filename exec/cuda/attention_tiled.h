// Attention of our own on tensor cores (bf16 products, fp32 sums, sm_80 and later): tile by tile, no memory that grows
// with the square of the length, no workspace, every sum in a fixed order, so that each call repeats its bits.
//
// Forward: a block holds 64 queries of one head and walks the keys up to the diagonal with a running maximum. Backward:
// one kernel walks the keys of 64 queries for d_q, another the queries of 64 keys, over all heads of their group, for
// d_k and d_v. Both make the scores again: 7 products for the 5 that must be, which saves atomics and their order.
//
// In packed rows and under a window a walk takes the tiles alone that one of the block's 64 sees or is seen by
// (documents.h), and hides the rest within them. Which tiles these are decides nothing but the time.
#pragma once

#include "exec/cuda/attention.h"

namespace penstock::exec {

/// Head dimensions that are multiples of 8, up to 128; any length. The rest is for attention_plain.h.
inline bool attention_tiles(const AttentionSpec& shape) { return shape.head_dim % 8 == 0 && shape.head_dim <= 128; }

/// REQUIRES: attention_tiles(shape); tensors aligned to 16 bytes.
void tiled_attention_forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                             const ChunkKeys& keys, std::uint16_t* context, float* lse, Stream stream);
void tiled_attention_backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream);

}  // namespace penstock::exec
