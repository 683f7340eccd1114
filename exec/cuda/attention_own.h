// Attention without a library: tiled where the shape allows it, else plain. What `Attention` runs where cuDNN is
// missing or does not take the shape, on packed rows and on chunks.
#pragma once

#include <string>

#include "exec/cuda/attention_plain.h"
#include "exec/cuda/attention_tiled.h"

namespace penstock::exec {

inline void own_attention_forward(const AttentionSpec& shape, const std::int32_t* document_starts,
                                  const std::uint16_t* qkv, const ChunkKeys& keys, std::uint16_t* context, float* lse,
                                  Stream stream) {
  const auto run = attention_tiles(shape) ? tiled_attention_forward : plain_attention_forward;
  run(shape, document_starts, qkv, keys, context, lse, stream);
}

inline void own_attention_backward(const AttentionSpec& shape, const AttentionBackward& tensors, Stream stream) {
  const auto run = attention_tiles(shape) ? tiled_attention_backward : plain_attention_backward;
  run(shape, tensors, stream);
}

/// What runs and what it costs (bench/results/README.md), where cuDNN is missing for the reason given.
inline std::string own_attention_note(const std::string& why) {
  return "attention runs on kernels of our own, for cuDNN is missing (" + why +
         "). Same results but for rounding; on an H200 they reach 31 to 53 % of cuDNN's rate, so that what a hardware "
         "file or a profile with cuDNN predicts is too short: `penstock-exec calibrate` here measures them";
}

}  // namespace penstock::exec
