// The only place that includes Eigen. PENSTOCK_MATMUL_TARGET (CMakeLists.txt) is the namespace of this instruction set;
// Eigen itself is renamed with it.
#include "exec/host/matmul_kernels.h"

#include <Eigen/Core>

#include "exec/host/scratch.h"

namespace penstock::exec::PENSTOCK_MATMUL_TARGET {
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
  [[maybe_unused]] static const bool fixed = (Eigen::setCpuCacheSizes(32 << 10, 1 << 20, 4 << 20), true);
}

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

}  // namespace

template <class Real>
MatmulKernels<Real> kernels() {
  return {multiply_transposed<Real>, multiply<Real>, add_transposed_product<Real>, exponentials<Real>};
}

template MatmulKernels<float> kernels();
template MatmulKernels<double> kernels();

}  // namespace penstock::exec::PENSTOCK_MATMUL_TARGET
