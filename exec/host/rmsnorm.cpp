#include "exec/host/rmsnorm.h"

#include <algorithm>

#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {

template <class Storage>
void rmsnorm(const typename Storage::Element* x, const typename Storage::Element* w, typename Storage::Element* y,
             std::int64_t rows, std::int64_t columns, double epsilon) {
  using Real = typename Storage::Real;
  ScratchScope scratch;
  Real* const weights = scratch.take<Real>(columns);
  Real* const row = scratch.take<Real>(columns);
  widen<Storage>(w, columns, weights);
  for (std::int64_t r = 0; r < rows; ++r) {
    widen<Storage>(x + r * columns, columns, row);
    rmsnorm_row(row, weights, row, columns, epsilon);
    narrow<Storage>(row, columns, y + r * columns);
  }
}

template <class Storage>
void rmsnorm_backward(const typename Storage::Element* x, const typename Storage::Element* w,
                      const typename Storage::Element* dy, const typename Storage::Element* residual,
                      typename Storage::Element* dx, typename Storage::Real* dw, std::int64_t rows,
                      std::int64_t columns, double epsilon) {
  using Real = typename Storage::Real;
  ScratchScope scratch;
  Real* const weights = scratch.take<Real>(columns);
  Real* const row = scratch.take<Real>(columns);
  Real* const gradient = scratch.take<Real>(columns);
  double* const dw_sum = scratch.take<double>(columns);
  widen<Storage>(w, columns, weights);
  std::fill_n(dw_sum, columns, 0.0);
  for (std::int64_t r = 0; r < rows; ++r) {
    widen<Storage>(x + r * columns, columns, row);
    widen<Storage>(dy + r * columns, columns, gradient);
    rmsnorm_row_backward(row, weights, gradient, gradient, dw_sum, columns, epsilon);
    if (residual != nullptr)
      for (std::int64_t i = 0; i < columns; ++i) gradient[i] += Storage::load(residual[r * columns + i]);
    narrow<Storage>(gradient, columns, dx + r * columns);
  }
  for (std::int64_t i = 0; i < columns; ++i) dw[i] = static_cast<Real>(dw_sum[i]);
}

template void rmsnorm<Bf16Storage>(const std::uint16_t*, const std::uint16_t*, std::uint16_t*, std::int64_t,
                                   std::int64_t, double);
template void rmsnorm<DoubleStorage>(const double*, const double*, double*, std::int64_t, std::int64_t, double);
template void rmsnorm_backward<Bf16Storage>(const std::uint16_t*, const std::uint16_t*, const std::uint16_t*,
                                            const std::uint16_t*, std::uint16_t*, float*, std::int64_t, std::int64_t,
                                            double);
template void rmsnorm_backward<DoubleStorage>(const double*, const double*, const double*, const double*, double*,
                                              double*, std::int64_t, std::int64_t, double);

}  // namespace penstock::exec
