#include "shared/ir/operands.h"

#include "shared/ir/check_passes.h"

namespace penstock {
namespace {

constexpr Keep kKeeps[] = {Keep::input, Keep::input_attention, Keep::everything};
constexpr Pass kPasses[] = {Pass::forward, Pass::recompute, Pass::backward, Pass::loss};
constexpr LayerKind kKinds[] = {LayerKind::embedding, LayerKind::decoder, LayerKind::head};

template <typename Enum>
std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

Operand optional(Operand operand) {
  operand.required = false;
  return operand;
}

}  // namespace

OperandTable::OperandTable(const Schedule& schedule, const Model& model) : schedule_(schedule), model_(model) {
  const BatchShape batch = schedule.micro_batch;
  for (const Keep keep : kKeeps) {
    kept_[at(keep)] = kept_region(model, LayerKind::decoder, batch, schedule.layout(keep)).bytes;
    recomputed_[at(keep)] = recomputed_region(model, LayerKind::decoder, batch, schedule.layout(keep)).bytes;
    for (const LayerKind kind : kKinds)
      for (const Pass pass : kPasses)
        workspace_[at(kind)][at(pass)][at(keep)] =
            workspace_region(model, kind, pass, batch, schedule.layout(keep)).bytes;
  }
}

Operand OperandTable::operand(TensorKind tensor, int layer, int version, int micro_batch) const {
  const Value value{tensor, layer, version, micro_batch};
  return {value, value_bytes(schedule_, model_, value, Keep::input)};
}

Operand OperandTable::region(TensorKind tensor, int layer, int micro_batch, std::int64_t bytes) const {
  return {{tensor, layer, 0, micro_batch}, bytes};
}

void OperandTable::gradient(int layer, int micro_batch, Operands& operands) const {
  if (schedule_.numerics.sum_on_host) {
    operands.writes.push_back(operand(TensorKind::gradient_part, layer, 0, micro_batch));
    return;
  }
  Operand before = optional(operand(TensorKind::gradient_sum, layer));
  before.any_micro_batch = true;
  operands.reads.push_back(before);
  operands.writes.push_back(operand(TensorKind::gradient_sum, layer, 0, micro_batch));
}

void OperandTable::decoder(const Op& op, const TemplateWork& work, Operands& operands) const {
  const int l = op.layer, m = op.micro_batch;
  const std::int64_t kept = kept_[at(work.keep)], recomputed = recomputed_[at(work.keep)];
  operands.reads = {operand(TensorKind::weights, l), operand(TensorKind::boundary, l, 0, m)};
  if (kept > 0)
    (work.pass == Pass::forward ? operands.writes : operands.reads).push_back(region(TensorKind::kept, l, m, kept));
  switch (work.pass) {
    case Pass::forward: operands.writes.push_back(operand(TensorKind::boundary, l + 1, 0, m)); break;
    case Pass::recompute:
      if (recomputed > 0) operands.writes.push_back(region(TensorKind::recomputed, l, m, recomputed));
      operands.writes.push_back(optional(operand(TensorKind::boundary, l + 1, 0, m)));
      break;
    case Pass::backward:
      if (recomputed > 0) operands.reads.push_back(region(TensorKind::recomputed, l, m, recomputed));
      operands.reads.push_back(operand(TensorKind::boundary_gradient, l + 1, 0, m));
      operands.writes.push_back(operand(TensorKind::boundary_gradient, l, 0, m));
      gradient(l, m, operands);
      break;
    case Pass::loss: break;
  }
}

Operands OperandTable::of(const Op& op, const TemplateWork& work) const {
  const int l = op.layer, m = op.micro_batch;
  Operands operands;
  switch (work.kind) {
    case LayerKind::embedding:
      operands.reads = {operand(TensorKind::tokens, -1)};
      if (work.pass == Pass::forward) {
        operands.reads.push_back(operand(TensorKind::weights, l));
        operands.writes.push_back(operand(TensorKind::boundary, l + 1, 0, m));
      } else {
        operands.reads.push_back(operand(TensorKind::boundary_gradient, l + 1, 0, m));
        gradient(l, m, operands);
      }
      break;
    case LayerKind::decoder: decoder(op, work, operands); break;
    case LayerKind::head:
      operands.reads = {operand(TensorKind::weights, l), operand(TensorKind::tokens, -1),
                        operand(TensorKind::boundary, l, 0, m)};
      if (model_.config.tied_embeddings) operands.reads.push_back(operand(TensorKind::weights, 0));
      operands.writes = {operand(TensorKind::boundary_gradient, l, 0, m), operand(TensorKind::loss, l, 0, m)};
      gradient(l, m, operands);
      break;
  }
  Operand workspace{{TensorKind::workspace, -1, 0, -1}, workspace_[at(work.kind)][at(work.pass)][at(work.keep)]};
  workspace.required = workspace.bytes > 0;
  workspace.at_least = true;
  operands.writes.push_back(workspace);
  return operands;
}

Operands OperandTable::of(const Op& op, const OptimizerWork&) const {
  const int l = op.layer;
  const StateFormat format = schedule_.numerics.states;
  std::vector<TensorKind> states{TensorKind::weights, TensorKind::moment_m, TensorKind::moment_v};
  if (format == StateFormat::planes) states.push_back(TensorKind::low_bits);
  if (format == StateFormat::master_and_copy) states.push_back(TensorKind::master);
  Operands operands;
  for (const TensorKind state : states) {
    Operand before = operand(state, l);
    // With a master, the bf16 copy is only written.
    before.required = !(state == TensorKind::weights && format == StateFormat::master_and_copy);
    operands.reads.push_back(before);
    operands.writes.push_back(operand(state, l, 1));
  }
  operands.reads.push_back(operand(TensorKind::gradient, l));
  operands.reads.push_back(operand(TensorKind::step_scalars, -1));
  return operands;
}

Operands OperandTable::of(const Op& op, const AccumulateWork&) const {
  Operand before = optional(operand(TensorKind::gradient_sum, op.layer));
  before.any_micro_batch = true;
  return {{operand(TensorKind::gradient_part, op.layer, 0, op.micro_batch), before},
          {operand(TensorKind::gradient_sum, op.layer, 0, op.micro_batch)}};
}

Operands OperandTable::of(const Op& op, const FinishGradientWork&) const {
  Operands operands;
  const auto add_sum = [&](int layer) {
    operands.reads.push_back(operand(TensorKind::gradient_sum, layer));
    operands.reads.back().any_micro_batch = true;
  };
  add_sum(op.layer);
  if (op.layer == 0 && model_.config.tied_embeddings) add_sum(model_.head_index());
  operands.writes = {operand(TensorKind::gradient, op.layer), operand(TensorKind::norm_partial, op.layer)};
  operands.writes.back().required = schedule_.numerics.clip;
  return operands;
}

Operands OperandTable::of(const Op&, const StepScalarsWork&) const {
  Operands operands;
  if (schedule_.numerics.clip)
    for (const Layer& layer : model_.layers)
      if (layer.state_elements > 0) operands.reads.push_back(operand(TensorKind::norm_partial, layer.index));
  operands.writes = {operand(TensorKind::step_scalars, -1)};
  return operands;
}

}  // namespace penstock
