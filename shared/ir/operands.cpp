#include "shared/ir/operands.h"

#include "shared/ir/check_parts.h"

namespace penstock {
namespace {

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
  for (const LayerKind kind : kLayerKinds)
    for (const Pass pass : kAllPasses) uses_[at(kind)][at(pass)] = operand_uses(kind, pass);
  chunks_ = schedule.chunks();
  for (auto& [regions, micro_batch] : {std::pair{&regions_, 0}, {&of_last_chunk_, chunks_ - 1}}) {
    const BatchShape batch = schedule.shape_of(micro_batch);
    for (const LayerKind kind : kLayerKinds)
      for (const Keep keep : kKeeps) {
        if (!model.has(kind)) continue;
        regions->kept[at(kind)][at(keep)] = kept_region(model, kind, batch, schedule.layout(keep)).bytes;
        regions->recomputed[at(kind)][at(keep)] = recomputed_region(model, kind, batch, schedule.layout(keep)).bytes;
        for (const Pass pass : kAllPasses)
          regions->workspace[at(kind)][at(pass)][at(keep)] =
              workspace_region(model, kind, pass, batch, schedule.layout(keep)).bytes;
      }
  }
}

Operand OperandTable::operand(TensorKind tensor, int layer, int version, int micro_batch) const {
  const Value value{tensor, layer, version, micro_batch};
  return {value, value_bytes(schedule_, model_, value, Keep::input)};
}

std::int64_t OperandTable::bytes(const Op& op, const TemplateWork& work, const Value& value) const {
  const Regions& regions = (op.micro_batch + 1) % chunks_ == 0 ? of_last_chunk_ : regions_;
  switch (value.tensor) {
    case TensorKind::kept: return regions.kept[at(work.kind)][at(work.keep)];
    case TensorKind::recomputed: return regions.recomputed[at(work.kind)][at(work.keep)];
    case TensorKind::workspace: return regions.workspace[at(work.kind)][at(work.pass)][at(work.keep)];
    default: return value_bytes(schedule_, model_, value, work.keep);
  }
}

std::optional<Operand> OperandTable::operand(const Op& op, const TemplateWork& work, TemplateOperand part) const {
  if (part == TemplateOperand::tied_weights && !model_.config.tied_embeddings) return std::nullopt;
  const auto& [unused, name, tensor, layer] = facts(part);
  Value value{tensor};
  switch (layer) {
    case OperandLayer::own: value.layer = op.layer; break;
    case OperandLayer::next: value.layer = op.layer + 1; break;
    case OperandLayer::first: value.layer = 0; break;
    case OperandLayer::none: break;
  }
  if (part == TemplateOperand::gradient && schedule_.numerics.sum_on_host) value.tensor = TensorKind::gradient_part;
  if (!is_of_step(tensor) && tensor != TensorKind::weights) value.micro_batch = op.micro_batch;
  Operand found{value, bytes(op, work, value)};
  found.part = part;
  found.at_least = tensor == TensorKind::workspace;
  found.required = !found.at_least || found.bytes > 0;
  const bool is_region = tensor == TensorKind::kept || tensor == TensorKind::recomputed;
  return is_region && found.bytes == 0 ? std::nullopt : std::optional(found);
}

void OperandTable::add_chunks(const Op& op, TemplateOperand part, Use use, Operands& operands) const {
  const int chunk = op.micro_batch % chunks_, first = op.micro_batch - chunk;
  const auto add = [&](std::vector<Operand>& list, int m) {
    list.push_back(operand(facts(part).tensor, op.layer, 0, m));
    list.back().part = part;
  };
  for (int m = first; m < op.micro_batch; ++m) {
    add(use == Use::adds_through ? operands.writes : operands.reads, m);
    if (use == Use::adds_through && chunk + 1 < chunks_) add(operands.reads, m);
  }
  if (use == Use::reads_past) return;
  add(use == Use::adds_through ? operands.writes : operands.reads, op.micro_batch);
  if (use == Use::adds_through && chunk + 1 < chunks_) add(operands.reads, op.micro_batch);
}

Operands OperandTable::of(const Op& op, const TemplateWork& work) const {
  const std::span<const OperandUse> uses = uses_[at(work.kind)][at(work.pass)];
  Operands operands;
  operands.reads.reserve(uses.size());
  operands.writes.reserve(uses.size());
  for (const OperandUse& of : uses) {
    const TemplateOperand part = of.operand;
    const Use use = of.use;
    if (!of.is_of(schedule_.micro_batch, model_.config)) continue;
    if (use >= Use::reads_past) {
      if (attends(of.pass, work.keep)) add_chunks(op, part, use, operands);
      continue;
    }
    const std::optional<Operand> found = operand(op, work, part);
    if (!found) continue;
    switch (use) {
      case Use::reads: operands.reads.push_back(*found); break;
      case Use::writes: operands.writes.push_back(*found); break;
      case Use::may_write: operands.writes.push_back(optional(*found)); break;
      case Use::adds:
        operands.writes.push_back(*found);
        if (schedule_.numerics.sum_on_host) break;  // a part is of one micro-batch
        operands.reads.push_back(optional(*found));
        operands.reads.back().any_micro_batch = true;
        break;
      case Use::reads_past:
      case Use::reads_through:
      case Use::adds_through: break;  // add_chunks
    }
  }
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
      if (layer.state_elements > 0 && layer.trains)
        operands.reads.push_back(operand(TensorKind::norm_partial, layer.index));
  if (schedule_.micro_batch.kind == BatchKind::packed)
    operands.reads.push_back(operand(TensorKind::trained_tokens, -1));
  operands.writes = {operand(TensorKind::step_scalars, -1)};
  return operands;
}

Operands OperandTable::of(const Op&, const InputWork&) const {
  Operands operands;
  for (const TensorKind tensor : kInputTensors)
    if (const Operand written = operand(tensor, -1); written.bytes > 0) operands.writes.push_back(written);
  return operands;
}

}  // namespace penstock
