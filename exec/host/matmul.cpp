#include "exec/host/matmul.h"

#include <Eigen/Core>
#include <mutex>

#include "exec/host/scratch.h"

namespace penstock::exec {
namespace {

template <class Real>
using Dense = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using Map = Eigen::Map<Dense<Real>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class Real>
Map<Real> map(Matrix<Real> m) {
  return Map<Real>(m.data, m.rows, m.columns, Eigen::OuterStride<>(m.stride));
}

/// Eigen cuts products by the caches that it finds, and with them the order of additions. These are a current core's.
void fix_block_sizes() {
  static std::once_flag once;
  std::call_once(once, [] { Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 4 << 20); });
}

}  // namespace

template <class Real>
void multiply_transposed(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  fix_block_sizes();
  map(c).noalias() = map(a) * map(b).transpose();
}

template <class Real>
void multiply(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  fix_block_sizes();
  map(c).noalias() = map(a) * map(b);
}

template <class Real>
void add_transposed_product(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  fix_block_sizes();
  map(c).noalias() += map(a).transpose() * map(b);
}

template <class Real>
void exponentials(Real* values, std::int64_t count) {
  Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>, Eigen::Aligned64> all(values, pad_to_lanes(count));
  all = all.exp();
}

template void multiply_transposed(Matrix<float>, Matrix<float>, Matrix<float>);
template void multiply_transposed(Matrix<double>, Matrix<double>, Matrix<double>);
template void multiply(Matrix<float>, Matrix<float>, Matrix<float>);
template void multiply(Matrix<double>, Matrix<double>, Matrix<double>);
template void add_transposed_product(Matrix<float>, Matrix<float>, Matrix<float>);
template void add_transposed_product(Matrix<double>, Matrix<double>, Matrix<double>);
template void exponentials(float*, std::int64_t);
template void exponentials(double*, std::int64_t);

}  // namespace penstock::exec
