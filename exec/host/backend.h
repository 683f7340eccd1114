// The host backend: the CPU stands in for the GPU, so that everything runs and is tested with no GPU. GPU lanes are
// threads with queues, HBM is memory, templates are the kernels of exec/host/templates.h, and the link is memcpy paced
// to a given rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "exec/runtime/backend.h"

namespace penstock::exec {

struct HostBackendOptions {
  // What the link is throttled to, each direction for itself; 0 = as fast as memcpy.
  double h2d_bytes_per_second = 0;
  double d2h_bytes_per_second = 0;
  std::int64_t hbm_limit_bytes = 0;  // 0 = none
  // As if no more host memory could be pinned for a GPU (exec/runtime/pinning.h); -1 = all can.
  std::int64_t pinned_limit_bytes = -1;
};

std::unique_ptr<Backend> make_host_backend(const HostBackendOptions& options);

/// memcpy that takes bytes / rate: chunk after chunk, none leaves before its due time. `rate` 0: plain memcpy.
void paced_copy(std::byte* to, const std::byte* from, std::int64_t bytes, double bytes_per_second);

/// The rate that the throttle gives to a copy between these tiers; 0 = none.
double link_rate(const HostBackendOptions& options, TierKind from, TierKind to);

}  // namespace penstock::exec
