// How a kernel's tensors are stored and with which arithmetic it computes.
//
// The kernels are templates over one of these, so that the gradient check against central differences runs the very
// code that trains, in double and without rounding:
//   Bf16Storage    tensors in bf16, rounded to nearest even where a tensor of shared/model/activations.h is written;
//                  arithmetic in fp32. What run_template_host uses.
//   DoubleStorage  everything fp64. What tests use.
#pragma once

#include <cstdint>

#include "exec/numerics/bf16.h"

namespace penstock::exec {

struct Bf16Storage {
  using Element = std::uint16_t;
  using Real = float;
  static Real load(Element value) { return widen_bf16(value); }
  static Element store(Real value) { return round_to_bf16(value); }
};

struct DoubleStorage {
  using Element = double;
  using Real = double;
  static Real load(Element value) { return value; }
  static Element store(Real value) { return value; }
};

template <class Storage>
void widen(const typename Storage::Element* from, std::int64_t count, typename Storage::Real* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Storage::load(from[i]);
}

template <class Storage>
void narrow(const typename Storage::Real* from, std::int64_t count, typename Storage::Element* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Storage::store(from[i]);
}

}  // namespace penstock::exec
