// How long one execution of a kernel took, as calibration hears of it.
#pragma once

#include "shared/model/kernels.h"

namespace penstock::exec {

struct KernelMark {
  KernelId kernel{};
  double seconds = 0;
};

}  // namespace penstock::exec
