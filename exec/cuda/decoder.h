// A decoder layer on the GPU: the same steps, in the same order and with the same roundings, as exec/host/decoder.h.
#pragma once

#include "exec/cuda/gradient_memory.h"
#include "exec/cuda/kernel_marks.h"
#include "exec/cuda/matmul.h"

namespace penstock::exec {

/// What the templates of one launching thread share.
struct Libraries {
  Matmul matmul;
  Attention attention;
  bool deterministic_attention = true;
  KernelMarks* marks = nullptr;

  void mark(KernelId kernel, Stream stream) const {
    if (marks != nullptr) marks->after(kernel, stream);
  }
};

/// Forward or recompute: makes what the pass has to make, finds the rest where an earlier op left it.
void decoder_forward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream);
void decoder_backward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream);

}  // namespace penstock::exec
