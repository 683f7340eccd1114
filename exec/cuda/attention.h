// Attention (shared/model/attention.h) over packed q, k, v: two implementations behind this header, chosen by CMake.
//   attention_cudnn.cpp           cuDNN's graph API, where a program finds it; what it does not take, on this card,
//                                 within the workspace given, goes to our own kernels, and a note says so
//   attention_without_cudnn.cpp   our own kernels alone (attention_own.h): any head dim and length
//
// Layouts (bf16 unless said): qkv and d_qkv [tokens, (heads + 2 kv_heads) head_dim], per token q heads, then k, then v;
// context and d_context [tokens, heads head_dim]; lse fp32 [sequences, heads, length], natural log. Scale
// 1/sqrt(head_dim).
//
// Not thread-safe: one object per launching thread. Plans are built at the first call of a shape (seconds) and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/cuda/stream.h"
#include "shared/model/attention.h"
#include "shared/model/library_workspace.h"

namespace penstock::exec {

/// Of a chunk (AttentionSpec::is_chunk): keys and values of its sequence so far, its own among them, [keys(), 2 kv_heads
/// head_dim], instead of those in qkv; and for backward the sum of their gradient, to which it is added or, where the
/// chunk is the sequence's last, which it overwrites, and its queries, where they were kept without the rest of qkv.
struct ChunkKeys {
  const std::uint16_t* kv = nullptr;
  float* gradient = nullptr;
  bool adds = false;
  const std::uint16_t* queries = nullptr;  // [tokens, heads head_dim]; nullptr: in qkv
};

struct AttentionBackward {
  const std::int32_t* document_starts = nullptr;  // [sequences, length] of packed rows, nullptr in windows; of a chunk
                                                  // its whole row's
  const std::uint16_t* qkv = nullptr;
  const std::uint16_t* context = nullptr;
  const float* lse = nullptr;
  const std::uint16_t* d_context = nullptr;
  std::uint16_t* d_qkv = nullptr;  // every element is written; of a chunk's own keys and values what `keys` sums up
  ChunkKeys keys = {};
};

struct LibraryWorkspace {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

class Attention {
 public:
  Attention();
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// "cuDNN 9.19.0" or "own".
  static const char* name();
  /// Where our own kernels compute all of it: for people, why, what that costs and what would change it; else empty.
  static std::string note();

  /// `document_starts` as in AttentionBackward. Packed rows are for our own kernels: to a library their lengths would be
  /// shapes, of which each step has others. So are chunks that do not begin and end at multiples of 64 tokens.
  void forward(const AttentionSpec& shape, const std::int32_t* document_starts, const std::uint16_t* qkv,
               const ChunkKeys& keys, std::uint16_t* context, float* lse, LibraryWorkspace workspace, Stream stream);

  /// Runs piece by piece: sequences first, then groups of key-value heads (shared/model/library_workspace.h).
  void backward(const AttentionSpec& shape, const AttentionBackward& tensors, const AttentionPiece& piece,
                bool deterministic, LibraryWorkspace workspace, Stream stream);

 private:
  void backward_of_chunk(const AttentionSpec& shape, const AttentionBackward& tensors, const AttentionPiece& piece,
                         bool deterministic, LibraryWorkspace workspace, Stream stream);

  struct Plans;
  std::unique_ptr<Plans> plans_;
};

}  // namespace penstock::exec
