#include "exec/host/swiglu.h"

#include <algorithm>

#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {
namespace {

/// sigmoid[i] = 1 / (1 + exp(-gate[i])), both scratch.
template <class Real>
void sigmoid_row(const Real* gate, Real* sigmoid, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sigmoid[i] = -gate[i];
  std::fill(sigmoid + count, sigmoid + pad_to_lanes(count), Real{0});
  exponentials(sigmoid, count);
  for (std::int64_t i = 0; i < count; ++i) sigmoid[i] = Real{1} / (Real{1} + sigmoid[i]);
}

}  // namespace

template <class Storage>
void swiglu(const typename Storage::Element* gate_up, typename Storage::Element* product, std::int64_t rows,
            std::int64_t intermediate) {
  using Real = typename Storage::Real;
  ScratchScope scratch;
  Real* const gate = scratch.take<Real>(intermediate);
  Real* const sigmoid = scratch.take<Real>(intermediate);
  for (std::int64_t r = 0; r < rows; ++r) {
    const typename Storage::Element* const in = gate_up + r * 2 * intermediate;
    widen<Storage>(in, intermediate, gate);
    sigmoid_row(gate, sigmoid, intermediate);
    for (std::int64_t i = 0; i < intermediate; ++i)
      product[r * intermediate + i] = Storage::store(gate[i] * sigmoid[i] * Storage::load(in[intermediate + i]));
  }
}

template <class Storage>
void swiglu_backward(const typename Storage::Element* gate_up, const typename Storage::Element* d_product,
                     typename Storage::Element* d_gate_up, std::int64_t rows, std::int64_t intermediate) {
  using Real = typename Storage::Real;
  ScratchScope scratch;
  Real* const gate = scratch.take<Real>(intermediate);
  Real* const sigmoid = scratch.take<Real>(intermediate);
  for (std::int64_t r = 0; r < rows; ++r) {
    const typename Storage::Element* const in = gate_up + r * 2 * intermediate;
    typename Storage::Element* const out = d_gate_up + r * 2 * intermediate;
    widen<Storage>(in, intermediate, gate);
    sigmoid_row(gate, sigmoid, intermediate);
    for (std::int64_t i = 0; i < intermediate; ++i) {
      const Real dp = Storage::load(d_product[r * intermediate + i]);
      const Real up = Storage::load(in[intermediate + i]);
      const Real s = sigmoid[i];
      out[i] = Storage::store(dp * up * s * (Real{1} + gate[i] * (Real{1} - s)));
      out[intermediate + i] = Storage::store(dp * gate[i] * s);
    }
  }
}

template void swiglu<Bf16Storage>(const std::uint16_t*, std::uint16_t*, std::int64_t, std::int64_t);
template void swiglu<DoubleStorage>(const double*, double*, std::int64_t, std::int64_t);
template void swiglu_backward<Bf16Storage>(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t,
                                           std::int64_t);
template void swiglu_backward<DoubleStorage>(const double*, const double*, double*, std::int64_t, std::int64_t);

}  // namespace penstock::exec
