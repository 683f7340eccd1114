// What one attention op computes, for whoever counts, runs or times it: cost model, both backends, calibration.
//
// Every sequence of the micro-batch attends to itself, causally; in packed rows every document does; in layers with a
// window the last so many tokens of it. The queries of a chunk also see the keys of the chunks before it. What else a
// query may see is a field here and a line in `keys_of`, which everybody asks: a sink.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

/// Queries, and keys, that our own kernels take at a time, on the host and on the GPU: what they compute of a document
/// is rounded up to such tiles.
inline constexpr std::int64_t kAttentionTile = 64;

/// A range of places of one row.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

struct AttentionSpec {
  std::int64_t sequences = 0, length = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // grouped-query: head h reads key-value head h / group()
  BatchKind rows = BatchKind::windows;
  double squared_lengths = 0;  // of packed rows, see BatchShape
  bool is_chunk = false;       // keys and values lie apart from the queries, [keys(), 2 kv_heads head_dim]
  std::int64_t past = 0;       // of a chunk: keys before its own, which its queries see too
  std::int64_t window = 0;     // tokens that a query sees, itself among them; 0: all before it

  bool operator==(const AttentionSpec&) const = default;

  std::int64_t tokens() const { return sequences * length; }
  std::int64_t keys() const { return past + length; }
  std::int64_t group() const { return heads / kv_heads; }
  /// Of a token's packed q, k and v; of its context.
  std::int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t context_columns() const { return heads * head_dim; }
  /// What the query at that place of its row sees, if its document begins at `document_start` (0 in windows).
  constexpr KeyRange keys_of(std::int64_t query, std::int64_t document_start = 0) const {
    return {window > 0 ? std::max(document_start, query + 1 - window) : document_start, query + 1};
  }
  /// As executed, causal counted half: two products of 2 L^2 d per head, of each document of packed rows; of a chunk
  /// 2 (L^2 + 2 L past) d; with a window of w < L the square is L^2 - (L - w)^2. Of documents under a window only the mean
  /// length of a token's document is known: they count as if all had that. Backward takes kAttentionBackwardFlops times
  /// that.
  double forward_flops() const {
    const auto l = static_cast<double>(length), before = static_cast<double>(past), w = static_cast<double>(window);
    const bool documents = rows == BatchKind::packed && squared_lengths > 0;
    double squares = documents ? squared_lengths : l * (l + 2 * before);
    const auto hidden = [&](double tokens) { return tokens > w ? (tokens - w) * (tokens - w) : 0.0; };
    if (window > 0 && documents)
      squares -= l * l / squares * hidden(squares / l);
    else if (window > 0)
      squares -= hidden(l + before) - hidden(before);
    return 2.0 * static_cast<double>(sequences) * static_cast<double>(heads) * static_cast<double>(head_dim) * squares;
  }
  /// Where our own kernels run, what the time goes with: forward_flops, and what tiles compute in vain behind what a
  /// query sees, and before it where that does not begin with a tile, half a tile each.
  double tiled_flops() const {
    const double tiles = rows == BatchKind::packed || window > 0 ? 4.0 : 2.0;
    return forward_flops() + tiles * static_cast<double>(sequences * heads * head_dim * length * kAttentionTile);
  }
};

/// Five products against two.
inline constexpr double kAttentionBackwardFlops = 2.5;

/// `window` is the layer's; one as long as what is there to be seen hides nothing.
inline AttentionSpec attention_spec(const ModelConfig& config, BatchShape batch, std::int64_t window) {
  AttentionSpec spec{batch.sequences, batch.sequence_length, config.heads,   config.kv_heads, config.head_dim,
                     batch.kind,      batch.squared_lengths, batch.is_cut(), batch.past};
  if (window < spec.keys()) spec.window = window;
  return spec;
}

}  // namespace penstock
