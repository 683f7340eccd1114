// Runs one bound op on the calling host thread. The host lanes of every run, and the GPU lanes of the host backend.
#pragma once

#include "exec/runtime/bound_op.h"

namespace penstock::exec {

/// Everything but templates and waits (std::logic_error). `step` is the run step, from 0; `stalls` what a report says
/// of it.
void run_host_work(const BoundOp& op, const BoundSchedule& bound, int step, const Stalls& stalls = {});

}  // namespace penstock::exec
