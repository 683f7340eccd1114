#include "shared/model/library_workspace.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::int64_t kTile = 128;                     // cuDNN pads the length to its tile
constexpr std::int64_t kSlack = std::int64_t{4} << 20;  // alignment and small tables

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

AttentionPiece attention_backward_piece(const Model& model, BatchShape batch, bool deterministic) {
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
  const std::int64_t attention = attention_backward_piece(model, batch, deterministic).bytes;
  return std::max(kLibraryWorkspaceBytes, (attention + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment);
}

}  // namespace penstock
