// Matrix products and exponentials of the host backend, by Eigen.
//
// All matrices are row-major scratch (exec/host/scratch.h). The order of Eigen's additions depends on the shape, the
// instruction set (exec/numerics/cpu_target.h) and its cache block sizes; the last are set to fixed values, so that machines
// with different caches give the same bits.
#pragma once

#include <cstdint>

namespace penstock::exec {

template <class Real>
struct Matrix {
  Real* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements from one row to the next

  Matrix(Real* data_in, std::int64_t rows_in, std::int64_t columns_in)
      : Matrix(data_in, rows_in, columns_in, columns_in) {}
  Matrix(Real* data_in, std::int64_t rows_in, std::int64_t columns_in, std::int64_t stride_in)
      : data(data_in), rows(rows_in), columns(columns_in), stride(stride_in) {}
  Real* row(std::int64_t index) const { return data + index * stride; }
};

/// c = a b^T: [m, n] = [m, k] [n, k]^T. A layer's forward product with weights [n, k].
template <class Real>
void multiply_transposed(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);

/// c = a b: [m, n] = [m, k] [k, n]. The gradient of a layer's input.
template <class Real>
void multiply(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);

/// c += a^T b: [m, n] += [k, m]^T [k, n]. The gradient of weights, a chunk of tokens at a time.
template <class Real>
void add_transposed_product(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);

/// values[i] = exp(values[i]) for i in [0, pad_to_lanes(count)). REQUIRES: scratch, from a multiple of kScratchLanes
/// on. NaN stays NaN; what underflows becomes a value below 1e-37, not necessarily 0.
template <class Real>
void exponentials(Real* values, std::int64_t count);

}  // namespace penstock::exec
