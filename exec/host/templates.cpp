#include "exec/host/templates.h"

#include "exec/host/decoder.h"
#include "exec/host/embedding.h"
#include "exec/host/gradient_sink.h"
#include "exec/host/loss.h"
#include "exec/host/op_memory.h"
#include "exec/host/storage.h"
#include "exec/optimizer/denormals.h"
#include "exec/runtime/bound_regions.h"

namespace penstock::exec {
namespace {

using Memory = OpMemory<Bf16Storage>;

Memory op_memory(const TemplateBinding& b, const BoundRegions& regions, KernelClock* clock) {
  Memory op;
  for (const TemplateOperandFacts& operand : kTemplateOperands) op.set(operand.operand, b.place(operand.operand));
  for (std::size_t i = 0; i < kActivations; ++i) {
    const auto activation = static_cast<Activation>(i);
    op.set(activation, regions.find(activation));
  }
  op.kind = b.kind;
  op.chunk_rows =
      b.kind == LayerKind::head ? loss_rows(b.batch, b.layout.chunking) : mlp_rows(b.batch, b.layout.chunking);
  op.gate_up_is_chunk = !regions.in_kept(Activation::gate_up) && !regions.in_recomputed(Activation::gate_up);
  op.adds_keys = b.adds_keys;
  op.window = b.window;
  const double* const trained = b.get<TemplateOperand::trained_tokens>();
  op.loss_scale = trained == nullptr ? b.loss_scale : 1.0 / *trained;
  op.balance_share = b.balance_share;
  op.clock = clock;
  return op;
}

DecoderProducts decoder_products(const TemplateBinding& b, const BoundRegions& regions) {
  DecoderProducts makes;
  makes.kv = b.pass == Pass::forward && b.batch.is_cut();
  if (b.pass == Pass::forward) return makes;
  makes.qkv = regions.in_recomputed(Activation::qkv);
  makes.attention = regions.in_recomputed(Activation::attention);
  makes.middle = regions.in_recomputed(Activation::middle);
  makes.output = b.place(TemplateOperand::output) != nullptr;
  makes.gate_up = regions.in_recomputed(Activation::gate_up) || (makes.output && !regions.in_kept(Activation::gate_up));
  return makes;
}

/// Backward, or the loss.
void run_backward(const TemplateBinding& b, const Memory& op) {
  switch (b.kind) {
    case LayerKind::embedding: embedding_backward(*b.model, b.batch, op, !b.accumulates); break;
    case LayerKind::decoder:
    case LayerKind::experts: decoder_backward(*b.model, b.batch, op); break;
    case LayerKind::head: {
      const HeadLoss loss = head_loss(*b.model, b.batch, op);
      double* const numbers = b.get<TemplateOperand::loss>();
      numbers[0] = loss.tokens;
      if (loss_numbers(b.model->config) > 1) numbers[1] = loss.balance;
      break;
    }
  }
}

/// A pass that makes gradients of weights.
void run_with_gradient(const TemplateBinding& b, Memory& op) {
  BoundGradient gradient(b.get<TemplateOperand::gradient>(), b.gradient_type, b.accumulates,
                         b.layer().gradient_elements);
  op.gradient = &gradient;
  run_backward(b, op);
  gradient.finish();
}

}  // namespace

void run_template_host(const TemplateBinding& binding, KernelClock* clock) {
  binding.require_operands();
  const KeepDenormals keep;
  const BoundRegions regions(binding);
  Memory op = op_memory(binding, regions, clock);
  if (clock != nullptr) clock->start();
  if (contributes(binding.pass))
    run_with_gradient(binding, op);
  else if (is_backward(binding.pass) || is_loss(binding.pass))
    run_backward(binding, op);
  else if (binding.kind == LayerKind::embedding)
    embedding_forward(*binding.model, binding.batch, op);
  else
    decoder_forward(*binding.model, binding.batch, decoder_products(binding, regions), op);
}

}  // namespace penstock::exec
