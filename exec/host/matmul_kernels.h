// Eigen's products and exponentials as one instruction set has them: matmul_kernels.cpp is compiled once for each, Eigen
// in a namespace of its own, so that no code of one is taken for another's by the linker.
#pragma once

#include "exec/host/matmul.h"

namespace penstock::exec {

/// Meaning and requirements: exec/host/matmul.h.
template <class Real>
struct MatmulKernels {
  void (*multiply_transposed)(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);
  void (*multiply)(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);
  void (*add_transposed_product)(Matrix<Real> a, Matrix<Real> b, Matrix<Real> c);
  void (*exponentials)(Real* values, std::int64_t count);
};

namespace matmul_baseline {
template <class Real>
MatmulKernels<Real> kernels();
}
#if defined(__x86_64__)
namespace matmul_avx2 {
template <class Real>
MatmulKernels<Real> kernels();
}
namespace matmul_avx512 {
template <class Real>
MatmulKernels<Real> kernels();
}
#endif

}  // namespace penstock::exec
