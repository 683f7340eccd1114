// Where calibration listens to a template op: told after each kernel is enqueued, once per chunk, chunks in ascending
// order.
#pragma once

#include "exec/cuda/stream.h"
#include "shared/model/kernels.h"

namespace penstock::exec {

class KernelMarks {
 public:
  virtual ~KernelMarks() = default;
  virtual void after(KernelId kernel, Stream stream) = 0;
};

}  // namespace penstock::exec
