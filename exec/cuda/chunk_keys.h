// What of a chunk's queries, keys and values lies apart: what it hands on to the chunks behind it, what it keeps.
#pragma once

#include <cstdint>

#include "exec/cuda/stream.h"

namespace penstock::exec {

/// Copies `rows` rows of `columns` elements, each `stride` elements behind the one before, to where they lie dense.
void copy_columns(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to, std::int64_t columns,
                  std::int64_t rows, Stream stream);

}  // namespace penstock::exec
