// Matrices in scratch that kernels multiply: copies of stored ones, and sums that begin with 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/host/matmul.h"
#include "exec/host/scratch.h"
#include "exec/host/storage.h"

namespace penstock::exec {

template <class Storage>
Matrix<typename Storage::Real> widened(ScratchScope& scratch, const typename Storage::Element* from, std::int64_t rows,
                                       std::int64_t columns) {
  using Real = typename Storage::Real;
  const Matrix<Real> copy(scratch.take<Real>(rows * columns), rows, columns);
  widen<Storage>(from, rows * columns, copy.data);
  return copy;
}

template <class Real>
Matrix<Real> zeros(ScratchScope& scratch, std::int64_t rows, std::int64_t columns) {
  const Matrix<Real> matrix(scratch.take<Real>(rows * columns), rows, columns);
  std::fill_n(matrix.data, rows * columns, Real{0});
  return matrix;
}

}  // namespace penstock::exec
