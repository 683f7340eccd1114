// Every matmul of the templates, through cuBLASLt: bf16 in, fp32 accumulation, bf16 or fp32 out.
//
// Row-major: d [m, n] = op(a) op(b) (+ c) (+ bias per column), contiguous rows. cuBLASLt thinks column-major, so it is
// asked for the transpose: d^T = op(b)^T op(a)^T.
//
// Determinism: the algorithm is the heuristic's first answer for shape, GPU and library version within a fixed
// workspace, without in-place split reductions; never timed, never dependent on what else runs. Choices are kept and
// can be listed. Not thread-safe: one object per launching thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/stream.h"

namespace penstock::exec {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;  // a is stored [k, m]
  bool b_transposed = false;  // b is stored [n, k]
  ElementType output = ElementType::bf16;
  bool adds = false;  // d = op(a) op(b) + c, c of the output's type
  bool bias = false;  // bf16 [n], added to every row

  auto operator<=>(const MatmulShape&) const = default;
};

/// One line of the table of choices: reproducible facts, for logs and reports.
struct MatmulChoice {
  MatmulShape shape;
  std::string algorithm;  // "id 66 tile 20 stages 36 split 1 swizzle 0 workspace 0"
};

class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// y [rows, outputs] = x [rows, inputs] w^T (+ bias) (+ residual); w [outputs, inputs]. y may be the residual.
  void forward(const std::uint16_t* x, const std::uint16_t* w, const std::uint16_t* bias, const std::uint16_t* residual,
               std::uint16_t* y, std::int64_t rows, std::int64_t outputs, std::int64_t inputs,
               LibraryWorkspace workspace, Stream stream);
  /// The same, but y is fp32, and there is neither bias nor residual.
  void forward(const std::uint16_t* x, const std::uint16_t* w, float* y, std::int64_t rows, std::int64_t outputs,
               std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
  /// d_x [rows, inputs] = d_y [rows, outputs] w.
  void input_gradient(const std::uint16_t* d_y, const std::uint16_t* w, std::uint16_t* d_x, std::int64_t rows,
                      std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
  /// d_x += d_y w.
  void add_input_gradient(const std::uint16_t* d_y, const std::uint16_t* w, std::uint16_t* d_x, std::int64_t rows,
                          std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);
  /// d_w [outputs, inputs] (+)= d_y^T x.
  void weight_gradient(const std::uint16_t* d_y, const std::uint16_t* x, GradientTarget d_w, std::int64_t rows,
                       std::int64_t outputs, std::int64_t inputs, LibraryWorkspace workspace, Stream stream);

  /// In the order of first use.
  std::vector<MatmulChoice> choices() const;
  /// cublasLtGetVersion.
  static std::size_t library_version();

 private:
  struct Plans;
  void run(const MatmulShape& shape, const void* a, const void* b, const void* c, void* d, const void* bias,
           LibraryWorkspace workspace, Stream stream);
  std::unique_ptr<Plans> plans_;
};

}  // namespace penstock::exec
