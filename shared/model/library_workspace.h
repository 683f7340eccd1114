// How much scratch memory the GPU libraries need, decided by model and length alone, never by free memory: policies
// reserve it (LayoutOptions::library_bytes), and the templates cut deterministic attention backward so that it fits.
#pragma once

#include <cstdint>

#include "shared/model/activations.h"
#include "shared/model/attention.h"
#include "shared/model/model.h"

namespace penstock {

/// What one call of deterministic attention backward may use; a call is cut smaller until it does. 4.25 GiB hold one
/// sequence of 8192 with 32 heads, and smaller pieces cost: on an H200 6.1 ms whole, 6.7 ms in halves, 9.2 ms in
/// eighths.
inline constexpr std::int64_t kAttentionWorkspaceBudget = std::int64_t{17} << 28;

/// One call of attention backward covers `sequences` sequences and `kv_groups` key-value heads with the query heads
/// that read them. Either all groups of several sequences or some groups of one sequence. The last call of a row of
/// calls may be smaller.
///
/// Of a chunk one call covers some groups of the chunk's queries and the keys of one chunk, its own or an earlier one. What
/// calls make is bf16 and is added up in fp32, in the order of the keys: `bytes` hold both.
struct AttentionPiece {
  std::int64_t sequences = 0;
  std::int64_t kv_groups = 0;  // 0: of a chunk that is for our own kernels
  std::int64_t bytes = 0;      // bound on the workspace of one call
  std::int64_t keys = 0;       // of a chunk
};

/// Key-value heads, with the query heads that read them, that one call of a chunk's backward covers against `keys` keys;
/// 0: the chunk is for our own kernels.
std::int64_t chunk_groups_per_call(const AttentionSpec& chunk, std::int64_t keys, bool deterministic = true);

/// Deterministic: cuDNN's workspace is 2 bytes x heads x length^2 per sequence (length rounded up to 128), the fp32
/// gradient of the queries and two fp32 rows of statistics; measured with cuDNN 9.19 on an H200 within 1 % for lengths
/// from 1000 to 32768 and head dims 64 and 128. Otherwise the call is never cut, and needs twice the fp32 gradient.
/// Where one key-value group alone exceeds the budget (length 8192 and more with 8 queries per key), `bytes` exceeds it
/// too. Chunks are for the library if they are windows, if they begin and end at multiples of 64 tokens, and if a group
/// stays within the budget: with 7 queries per key chunks of up to 16 384 tokens.
AttentionPiece attention_backward_piece(const Model& model, BatchShape batch, bool deterministic = true);

/// For LayoutOptions::library_bytes: the larger of kLibraryWorkspaceBytes and what attention backward needs, of a sequence
/// that is cut that of any of its chunks. Packed rows are not for the library.
std::int64_t library_workspace_bytes(const Model& model, BatchShape batch, bool deterministic = true);

}  // namespace penstock
