// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * w, over the last dimension; one rounding, at the end.
// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; as in Hugging Face's LlamaRMSNorm, but for
// its rounding between the two factors.
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/host/lanes.h"

namespace penstock::exec {

/// 1 / sqrt(mean(x^2) + epsilon) of one row.
template <class Real>
Real inverse_rms(const Real* x, std::int64_t columns, double epsilon) {
  const Real sum = lane_sum<Real>(columns, [x](std::int64_t i) { return x[i] * x[i]; });
  return Real{1} / std::sqrt(sum / static_cast<Real>(columns) + static_cast<Real>(epsilon));
}

template <class Real>
void rmsnorm_row(const Real* x, const Real* w, Real* y, std::int64_t columns, double epsilon) {
  const Real inverse = inverse_rms(x, columns, epsilon);
  for (std::int64_t i = 0; i < columns; ++i) y[i] = x[i] * inverse * w[i];
}

/// With n = x * inverse: dx = inverse * (w dy - n * mean(w dy n)), dw += dy n (in fp64: a sum over all tokens).
/// dx may be dy.
template <class Real>
void rmsnorm_row_backward(const Real* x, const Real* w, const Real* dy, Real* dx, double* dw, std::int64_t columns,
                          double epsilon) {
  const Real inverse = inverse_rms(x, columns, epsilon);
  const Real dot = lane_sum<Real>(columns, [=](std::int64_t i) { return w[i] * dy[i] * (x[i] * inverse); });
  const Real mean = dot / static_cast<Real>(columns);
  for (std::int64_t i = 0; i < columns; ++i) {
    const Real n = x[i] * inverse;
    dw[i] += static_cast<double>(dy[i] * n);
    dx[i] = inverse * (w[i] * dy[i] - n * mean);
  }
}

/// y[rows, columns] from x; y may be x.
template <class Storage>
void rmsnorm(const typename Storage::Element* x, const typename Storage::Element* w, typename Storage::Element* y,
             std::int64_t rows, std::int64_t columns, double epsilon);

/// dx = residual + gradient of the norm, rounded once; `residual` (the gradient that bypasses the norm) may be nullptr,
/// dx may be residual or dy. dw [columns] is overwritten.
template <class Storage>
void rmsnorm_backward(const typename Storage::Element* x, const typename Storage::Element* w,
                      const typename Storage::Element* dy, const typename Storage::Element* residual,
                      typename Storage::Element* dx, typename Storage::Real* dw, std::int64_t rows,
                      std::int64_t columns, double epsilon);

}  // namespace penstock::exec
