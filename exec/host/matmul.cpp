#include "exec/host/matmul.h"

#include "exec/host/matmul_kernels.h"
#include "exec/numerics/cpu_target.h"

namespace penstock::exec {
namespace {

template <class Real>
MatmulKernels<Real> kernels() {
#if defined(__x86_64__)
  switch (cpu_target()) {
    case CpuTarget::avx512: return matmul_avx512::kernels<Real>();
    case CpuTarget::avx2: return matmul_avx2::kernels<Real>();
    case CpuTarget::baseline: break;
  }
#endif
  return matmul_baseline::kernels<Real>();
}

}  // namespace

template <class Real>
void multiply_transposed(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  kernels<Real>().multiply_transposed(a, b, c);
}

template <class Real>
void multiply(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  kernels<Real>().multiply(a, b, c);
}

template <class Real>
void add_transposed_product(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c) {
  kernels<Real>().add_transposed_product(a, b, c);
}

template <class Real>
void exponentials(Real* values, std::int64_t count) {
  kernels<Real>().exponentials(values, count);
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
