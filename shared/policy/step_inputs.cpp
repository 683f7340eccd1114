#include "shared/policy/step_inputs.h"

#include <algorithm>
#include <utility>

namespace penstock {

StepInputs::StepInputs(Writer& writer) : writer_(writer) {
  const Plan& plan = writer.plan();
  const std::int64_t sequences = plan.input.sequences;
  add("tokens", TensorKind::tokens, 4 * sequences * plan.batch.token_row());
  if (plan.batch.kind == BatchKind::windows) return;
  add("labels", TensorKind::labels, 4 * sequences * plan.batch.sequence_length);
  add("document starts", TensorKind::document_starts, 4 * sequences * plan.batch.sequence_length);
  add("trained tokens", TensorKind::trained_tokens, 8);
}

void StepInputs::add(const char* name, TensorKind tensor, std::int64_t bytes) {
  const Place host = writer_.buffer(TierKind::dram, bytes, "{} (host)", name);
  const Place device = writer_.buffer(TierKind::hbm, bytes, "{}", name);
  inputs_.push_back({name, Writer::access(host, bytes, {tensor}), Writer::access(device, bytes, {tensor})});
}

const StepInputs::Input& StepInputs::find(TensorKind tensor) const {
  return *std::find_if(inputs_.begin(), inputs_.end(),
                       [&](const Input& input) { return input.host.value.tensor == tensor; });
}

void StepInputs::read() {
  Op op;
  op.name = "input";
  op.lane = writer_.input();
  op.work = InputWork{};
  for (const Input& input : inputs_) op.writes.push_back(input.host);
  writer_.add(std::move(op));
  for (const Input& input : inputs_)
    if (input.host.value.tensor == TensorKind::trained_tokens) upload(input);
}

void StepInputs::upload() {
  for (const Input& input : inputs_)
    if (input.host.value.tensor != TensorKind::trained_tokens) upload(input);
}

void StepInputs::upload(const Input& input) {
  writer_.copy(input.name, true, Phase::forward, input.host, input.device);
}

std::optional<Access> StepInputs::trained_tokens(bool on_gpu) const {
  if (writer_.plan().batch.kind == BatchKind::windows) return std::nullopt;
  return on_gpu ? on_device(TensorKind::trained_tokens) : on_host(TensorKind::trained_tokens);
}

}  // namespace penstock
