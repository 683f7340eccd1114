// Parts of attention's gradients that a library made, added up in fp32.
#pragma once

#include <cstdint>

#include "exec/cuda/stream.h"

namespace penstock::exec {

/// Rows of `columns` elements, each `stride` elements behind the one before.
template <typename Element>
struct Rows {
  Element* first = nullptr;
  std::int64_t stride = 0;
};

/// sum = part, or sum + part if it `adds`; rounded to `rounded` too, unless that is nullptr. `rounded` may be `part`.
void add_part(Rows<const std::uint16_t> part, Rows<float> sum, bool adds, Rows<std::uint16_t> rounded,
              std::int64_t rows, std::int64_t columns, Stream stream);

}  // namespace penstock::exec
