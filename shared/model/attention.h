// What one attention op computes, for whoever counts, runs or times it: cost model, both backends, calibration.
//
// Every sequence of the micro-batch attends to itself, causally. What else a query may see is a field here and a line
// in `keys_of`, which everybody asks: a window and a sink (models with sliding windows), segments (packed documents),
// the offset of the first query (a chunk of a long sequence). None of them is computed today
// (shared/model/sequence_limits.h refuses what would need one).
#pragma once

#include <cstdint>

#include "shared/model/activations.h"
#include "shared/model/model.h"

namespace penstock {

/// A range of positions of one sequence.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

struct AttentionSpec {
  std::int64_t sequences = 0, length = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // grouped-query: head h reads key-value head h / group()

  bool operator==(const AttentionSpec&) const = default;

  std::int64_t tokens() const { return sequences * length; }
  std::int64_t group() const { return heads / kv_heads; }
  /// Of a token's packed q, k and v; of its context.
  std::int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t context_columns() const { return heads * head_dim; }
  /// What a query at that position sees of its sequence.
  constexpr KeyRange keys_of(std::int64_t query) const { return {0, query + 1}; }
  /// As executed, causal counted half: two products of 2 L^2 d per head. Backward takes kAttentionBackwardFlops times
  /// that.
  double forward_flops() const {
    const auto l = static_cast<double>(length);
    return 2.0 * static_cast<double>(sequences) * static_cast<double>(heads) * static_cast<double>(head_dim) * l * l;
  }
};

/// Five products against two.
inline constexpr double kAttentionBackwardFlops = 2.5;

inline AttentionSpec attention_spec(const ModelConfig& config, BatchShape batch) {
  return {batch.sequences, batch.sequence_length, config.heads, config.kv_heads, config.head_dim};
}

}  // namespace penstock
