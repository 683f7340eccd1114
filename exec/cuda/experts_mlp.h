// The MLP of a mixture of experts on the GPU: the same steps, in the same order and with the same roundings, as
// exec/host/experts.h; the gradient of the router's logits is rounded to two bf16 for the router's own gradient, to one
// for that of its input.
#pragma once

#include "exec/cuda/decoder.h"

namespace penstock::exec {

/// With gate_up what the router chooses; REQUIRES: normed.
void experts_forward_cuda(Libraries& libraries, const TemplateBinding& binding, bool makes_gate_up, bool makes_output,
                          Stream stream);

/// output_gradient -> d_normed, with the gradients of the experts and the router. REQUIRES: normed. What the router chose
/// and gate_up are made again where the layout has them in the workspace.
void experts_backward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream);

/// What balances experts (exec/host/balance.h), behind the rows of a boundary or of its gradient.
double* balance_at(const TemplateBinding& op, std::uint16_t* boundary);
/// Of a layer that adds nothing; nothing, unless the model asks for the loss.
void pass_balance_on(const TemplateBinding& op, std::uint16_t* from, std::uint16_t* to, Stream stream);

}  // namespace penstock::exec
