#include "shared/model/library_workspace.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::int64_t kTile = 128;                     // cuDNN pads the length to its tile
constexpr std::int64_t kSlack = std::int64_t{4} << 20;  // alignment and small tables

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Of heads that a call has, `queries` and `keys` each: the library's workspace. With grouped queries it makes the
/// gradients of keys and values of each query head first.
std::int64_t call_bytes(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t head_dim,
                        bool deterministic) {
  queries = divide_up(queries, kTile) * kTile;
  keys = divide_up(keys, kTile) * kTile;
  const std::int64_t order = deterministic ? 2 * queries * keys : 0;
  return heads * (order + 8 * queries * head_dim + 8 * keys * head_dim + 8 * queries) + kSlack;
}

/// Of `groups` key-value heads of a chunk: the call, and what it and the calls before it have made.
std::int64_t chunk_call_bytes(const AttentionSpec& chunk, std::int64_t keys, std::int64_t groups, bool deterministic) {
  const std::int64_t heads = groups * chunk.group();
  const std::int64_t sums = 4 * heads * chunk.length * chunk.head_dim;
  const std::int64_t parts = 4 * groups * keys * chunk.head_dim;
  return call_bytes(heads, chunk.length, keys, chunk.head_dim, deterministic) + sums + parts;
}

AttentionPiece chunk_piece(const Model& model, BatchShape chunk, bool deterministic) {
  const AttentionSpec spec = attention_spec(model.config, chunk, 0);
  AttentionPiece piece{1, 0, 0, chunk.chunk_tokens};
  piece.kv_groups = chunk_groups_per_call(spec, piece.keys, deterministic);
  if (piece.kv_groups > 0) piece.bytes = chunk_call_bytes(spec, piece.keys, piece.kv_groups, deterministic);
  return piece;
}

}  // namespace

std::int64_t chunk_groups_per_call(const AttentionSpec& chunk, std::int64_t keys, bool deterministic) {
  constexpr std::int64_t kAlignment = 64;
  if (chunk.rows != BatchKind::windows || chunk.window > 0 || chunk.length % kAlignment != 0 ||
      keys % kAlignment != 0 || chunk.length < kTile || chunk.head_dim % 8 != 0 || chunk.head_dim > 128)
    return 0;
  for (std::int64_t groups = chunk.kv_heads; groups >= 1; --groups)
    if (chunk.kv_heads % groups == 0 &&
        chunk_call_bytes(chunk, keys, groups, deterministic) <= kAttentionWorkspaceBudget)
      return groups;
  return 0;
}

AttentionPiece attention_backward_piece(const Model& model, BatchShape batch, bool deterministic) {
  if (batch.is_cut()) return chunk_piece(model, batch, deterministic);
  const ModelConfig& config = model.config;
  const std::int64_t length = divide_up(batch.sequence_length, kTile) * kTile;
  const std::int64_t heads_per_group = config.heads / config.kv_heads;
  const std::int64_t gradient = 4 * length * config.head_dim;
  const std::int64_t statistics = 8 * length;
  const std::int64_t order = 2 * length * length;
  if (!deterministic) {
    const std::int64_t bytes = batch.sequences * config.heads * (2 * gradient + statistics) + kSlack;
    return {batch.sequences, config.kv_heads, bytes};
  }
  const std::int64_t group_bytes = heads_per_group * (order + gradient + statistics);
  const std::int64_t room = kAttentionWorkspaceBudget - kSlack;
  const std::int64_t sequences = room / (group_bytes * config.kv_heads);
  if (sequences >= 1) {
    // As few calls as fit, of equal size where that is possible: fewer shapes to plan, fewer part-filled waves.
    const std::int64_t calls = divide_up(batch.sequences, std::min(sequences, batch.sequences));
    const std::int64_t each = divide_up(batch.sequences, calls);
    return {each, config.kv_heads, each * config.kv_heads * group_bytes + kSlack};
  }
  const std::int64_t groups = std::clamp<std::int64_t>(room / group_bytes, 1, config.kv_heads);
  const std::int64_t each = divide_up(config.kv_heads, divide_up(config.kv_heads, groups));
  return {1, each, each * group_bytes + kSlack};
}

std::int64_t library_workspace_bytes(const Model& model, BatchShape batch, bool deterministic) {
  if (batch.kind == BatchKind::packed) return kLibraryWorkspaceBytes;
  std::int64_t attention = attention_backward_piece(model, chunk_of(batch, 0), deterministic).bytes;
  if (batch.is_cut())
    attention = std::max(attention,
                         attention_backward_piece(model, chunk_of(batch, chunk_count(batch) - 1), deterministic).bytes);
  return std::max(kLibraryWorkspaceBytes, (attention + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment);
}

}  // namespace penstock
