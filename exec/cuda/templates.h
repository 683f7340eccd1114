// The CUDA backend's templates: every pass of every layer kind, enqueued on a stream.
//
// Numerics as exec/host/templates.h has them: bf16 tensors rounded once where they are written, fp32 accumulation, fp32
// norms and softmax; sums run in another order, so results differ from the host's in the last bits. The same binding
// gives the same bits every time, on the same GPU model and library versions. With deterministic attention off,
// backward does not.
//
// Memory. Only the binding's, apart from what cuBLASLt and cuDNN allocate for themselves when they load kernels (first
// use of a shape: call once per shape before measuring anything, seconds for cuDNN).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/kernel_marks.h"
#include "exec/cuda/matmul.h"
#include "exec/cuda/stream.h"
#include "exec/runtime/binding.h"

namespace penstock::exec {

struct Libraries;

/// One object per launching thread.
class CudaTemplates {
 public:
  explicit CudaTemplates(bool deterministic_attention = true);
  ~CudaTemplates();
  CudaTemplates(const CudaTemplates&) = delete;
  CudaTemplates& operator=(const CudaTemplates&) = delete;

  /// Asynchronous. REQUIRES: tokens of the vocabulary; buffers aligned as the layouts are (kFieldAlignment), weights
  /// and gradients to 256 bytes. Throws std::logic_error for a pass that the kind does not have or a missing operand,
  /// std::runtime_error with the library's words if a call fails.
  void run(const TemplateBinding& binding, Stream stream);

  /// Told of every kernel from now on; nullptr: nobody is. `marks` must outlive its use.
  void listen(KernelMarks* marks);

  /// Which cuBLASLt algorithm each shape uses; for logs.
  std::vector<MatmulChoice> matmul_choices() const;

 private:
  std::unique_ptr<Libraries> libraries_;
};

}  // namespace penstock::exec
