// Where calibration listens to a template op: told after each kernel is enqueued, by the name that
// shared/model/kernels.h has for it. A name comes once per chunk, chunks in ascending order.
#pragma once

#include <string_view>

#include "exec/cuda/stream.h"

namespace penstock::exec {

class KernelMarks {
 public:
  virtual ~KernelMarks() = default;
  virtual void after(std::string_view kernel, Stream stream) = 0;
};

}  // namespace penstock::exec
