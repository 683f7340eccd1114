// Which queries and keys of a row see each other: what the attention kernels skip whole tiles by. Documents lie one behind
// the other; whatever bytes lie there, as a rehearsal or an aborted run may find them, nothing outside the row is named.
#pragma once

#include <cstdint>

#include "exec/numerics/host_device.h"

namespace penstock::exec {

/// Where a place's document begins. `starts`: of one row, ascending.
PENSTOCK_HOST_DEVICE inline int document_start(const std::int32_t* starts, int place) {
  const std::int32_t start = starts[place];
  return start < 0 ? 0 : start > place ? place : start;
}

/// Of one row, as AttentionSpec::keys_of has it.
struct VisibleKeys {
  const std::int32_t* starts = nullptr;  // of the row's documents; nullptr: all of it is one
  int length = 0;                        // places up to the last query's
  int window = 0;                        // 0: none

  /// The first key that a query sees; the last one is itself.
  PENSTOCK_HOST_DEVICE int first_key(int query) const {
    const int document = starts == nullptr ? 0 : document_start(starts, query);
    return window > 0 && query - window >= document ? query - window + 1 : document;
  }

  /// One behind the last query that sees a key; the first one is itself.
  PENSTOCK_HOST_DEVICE int end_of_queries(int key) const {
    int low = key + 1, high = window > 0 && window < length - key ? key + window : length;
    if (starts == nullptr) return high;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (first_key(middle) > key)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  // Of tiles of `rows` places: keys are numbered along the row, queries from place `past` on, where their chunk begins.

  /// The first tile of keys of which a query of this tile sees one.
  PENSTOCK_HOST_DEVICE int first_key_tile(int past, int tile, int rows) const {
    return first_key(past + tile * rows) / rows;
  }

  /// One behind the last tile of queries of which one sees a key of this tile.
  PENSTOCK_HOST_DEVICE int end_of_query_tiles(int past, int tile, int rows) const {
    const int last_key = (tile + 1) * rows < length ? (tile + 1) * rows - 1 : length - 1;
    const int end = end_of_queries(last_key) - past;
    return end <= 0 ? 0 : (end + rows - 1) / rows;
  }
};

}  // namespace penstock::exec
