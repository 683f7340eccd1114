// Which queries and keys of a row see each other where it has documents: what the attention kernels skip whole tiles by.
// `starts`: of one row, the place where each place's document begins, ascending, since documents lie one behind the
// other. Whatever bytes lie there, as a rehearsal or an aborted run may find them, nothing outside the row is named.
#pragma once

#include <cstdint>

#include "exec/numerics/host_device.h"

namespace penstock::exec {

/// The first key that a query sees; the last one is itself.
PENSTOCK_HOST_DEVICE inline int first_key(const std::int32_t* starts, int query) {
  const std::int32_t start = starts[query];
  return start < 0 ? 0 : start > query ? query : start;
}

/// One behind the last query that sees a key; the first one is itself.
PENSTOCK_HOST_DEVICE inline int end_of_queries(const std::int32_t* starts, int length, int key) {
  int low = key + 1, high = length;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (first_key(starts, middle) > key)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Of tiles of `rows` places: keys are numbered along the row, queries from place `past` on, where their chunk begins.

/// The first tile of keys of which a query of this tile sees one.
PENSTOCK_HOST_DEVICE inline int first_key_tile(const std::int32_t* starts, int past, int tile, int rows) {
  return first_key(starts, past + tile * rows) / rows;
}

/// One behind the last tile of queries of which one sees a key of this tile. `length`: places up to the last query's.
PENSTOCK_HOST_DEVICE inline int end_of_query_tiles(const std::int32_t* starts, int length, int past, int tile,
                                                   int rows) {
  const int last_key = (tile + 1) * rows < length ? (tile + 1) * rows - 1 : length - 1;
  const int end = end_of_queries(starts, length, last_key) - past;
  return end <= 0 ? 0 : (end + rows - 1) / rows;
}

}  // namespace penstock::exec
