#include <stdexcept>

#include "exec/calibrate/calibrate.h"
#include "exec/cuda/backend.h"

namespace penstock::exec {

Profile calibrate_cuda(std::span<const Scenario>, const CalibrationProgress&) {
  throw std::runtime_error(describe_cuda_devices());
}

}  // namespace penstock::exec
