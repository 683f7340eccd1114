// Attention in plain CUDA, all sums in fp32 and in a fixed order: slow, right for any head dim and length. What runs
// where neither cuDNN nor the tiled kernels take the shape, and what tests hold both against.
#pragma once

#include "exec/cuda/attention.h"

namespace penstock::exec {

void plain_attention_forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
                             const ChunkKeys& keys, std::uint16_t* context, float* lse, Stream stream);
void plain_attention_backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream);

}  // namespace penstock::exec
