// The host backend's templates: every pass of every layer kind, single-threaded (a lane is a thread).
//
// Numerics. Weights and activations are bf16; each tensor of shared/model/activations.h is rounded to nearest even
// once, where it is written; products accumulate in fp32, norms and softmax compute in fp32. The bits of a result
// depend on the operands' values and the shapes alone: not on addresses, not on the keep level, not on whether a tensor
// was kept or recomputed. Weight gradients: see exec/host/gradient_sink.h.
//
// Memory. Uses thread-local scratch beyond the binding's workspace: fp32 copies of the largest op's operands.
#pragma once

#include "exec/host/kernel_clock.h"
#include "exec/runtime/binding.h"

namespace penstock::exec {

/// Runs one template op to its end; `clock` hears of its kernels. Thread-safe for bindings that do not overlap. Throws
/// InputError for a token that is not in the vocabulary, std::logic_error for a pass that the layer kind does not have
/// or an operand that is missing.
void run_template_host(const TemplateBinding& binding, KernelClock* clock = nullptr);

}  // namespace penstock::exec
