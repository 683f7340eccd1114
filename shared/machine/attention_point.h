#pragma once

#include "shared/machine/machine.h"
#include "shared/model/attention.h"

namespace penstock {

/// What was timed.
inline AttentionSpec spec_of(const AttentionPoint& point) {
  const BatchKind rows = point.squared_lengths > 0 ? BatchKind::packed : BatchKind::windows;
  AttentionSpec spec{point.sequences, point.length, point.heads,          point.kv_heads,
                     point.head_dim,  rows,         point.squared_lengths};
  spec.is_chunk = point.past >= 0;
  spec.past = spec.is_chunk ? point.past : 0;
  spec.window = point.window;
  return spec;
}

}  // namespace penstock
