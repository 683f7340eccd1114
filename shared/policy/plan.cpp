#include "shared/policy/plan.h"

#include <algorithm>

namespace penstock {

namespace {
std::int64_t aligned(std::int64_t bytes) { return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment; }
}  // namespace

Plan::Plan(const PolicyInput& policy_input)
    : input(policy_input), parameters(policy_input.parameters), model(policy_input.model), head(model.head_index()) {
  batch = {input.micro_batch, input.sequence_length, input.rows, input.squared_lengths};
  batch.expert_skew = input.expert_skew;
  if (input.chunk_tokens < input.sequence_length) batch.chunk_tokens = input.chunk_tokens;
  chunks = chunk_count(batch);
  micro_batches = input.sequences / input.micro_batch * chunks;
  boundary = boundary_of(0);
  plan_keeping();
  optimizer_threads =
      parameters.optimizer_threads > 0 ? parameters.optimizer_threads : std::max(1, input.host_threads - 1);
  plan_groups();
  plan_visits();
  plan_state_tensors();
  plan_alike();
  workspace = std::max(
      {workspace_bytes(0, Pass::forward), workspace_bytes(head, Pass::loss), workspace_bytes(0, Pass::backward)});
  for (const auto& [layer, last] : kept_alike()) {
    workspace = std::max({workspace, workspace_bytes(layer, Pass::forward), workspace_bytes(layer, Pass::backward)});
    if (recomputes(layer)) workspace = std::max(workspace, workspace_bytes(layer, Pass::recompute));
  }
  const auto [decoder, edge] = update_slots();
  if (update_slots_in_workspace()) workspace = std::max(workspace, 2 * decoder + edge);
}

LayoutOptions Plan::layout(int layer) const { return {keep(layer), parameters.numerics.chunking, input.library_bytes}; }

void Plan::plan_keeping() {
  stays_.assign(static_cast<std::size_t>(head) + 1, {parameters.keep, parameters.activations});
  for (int layer = 1; layer <= parameters.first_layers; ++layer)
    stays_[static_cast<std::size_t>(layer)] = {parameters.first_keep, parameters.first_activations};
  for (const LayerKeep& kept : parameters.keep_layers) {
    const int layers = (kept.last < 0 ? head - 1 : kept.last) - kept.first + 1;
    const int count = kept.count == 0 ? layers : kept.count;
    for (int i = 0; i < count; ++i)  // in the middle of the i-th of `count` equal parts
      stays_[static_cast<std::size_t>(kept.first + (2 * i + 1) * layers / (2 * count))] = {kept.keep, kept.activations};
  }
  for (int layer = 0; layer < model.lowest_trained; ++layer) stays_[static_cast<std::size_t>(layer)] = Stay{};
  for (int layer = 1; layer < head; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const bool begins = layer == 1 || layer == parameters.first_layers + 1 || layer == model.lowest_trained ||
                        !(stays_[index] == stays_[index - 1]) || kind(layer) != kind(layer - 1);
    if (begins) kept_alike_.push_back({layer, layer});
    kept_alike_.back().last = layer;
    if (!begins) continue;
    const auto of_kind = static_cast<std::size_t>(kind(layer)), level = static_cast<std::size_t>(keep(layer));
    for (const std::size_t last : {0, 1}) {
      const BatchShape of = shape(last == 1 ? chunks - 1 : 0);
      kept_[of_kind][level][last] = kept_region(model, kind(layer), of, layout(layer)).bytes;
      recomputed_[of_kind][level][last] = recomputed_region(model, kind(layer), of, layout(layer)).bytes;
    }
  }
}

void Plan::plan_alike() {
  const PolicyParameters& p = parameters;
  std::vector<int> firsts{
      0, 1, p.resident_weights + 1, p.resident_states + 1, head - p.nvme_states, head - p.nvme_weights, head};
  for (int layer = 1; layer <= head; ++layer)
    if (trains(layer) != trains(layer - 1) || kind(layer) != kind(layer - 1)) firsts.push_back(layer);
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  std::erase_if(firsts, [&](int first) { return first > head; });
  for (std::size_t i = 0; i < firsts.size(); ++i)
    alike.push_back({firsts[i], i + 1 < firsts.size() ? firsts[i + 1] - 1 : head});
}

void Plan::plan_groups() {
  const int group = parameters.group > 0 ? parameters.group * chunks : micro_batches;
  const int first = parameters.first_group > 0 ? parameters.first_group * chunks : group;
  for (int begin = 0; begin < micro_batches;) {
    const int count = begin == 0 ? first : group;
    groups.push_back({begin, count});
    largest_group = std::max(largest_group, count);
    begin += count;
  }
}

void Plan::plan_visits() {
  visits.reserve(3 * static_cast<std::size_t>(head) + 2);
  for (int layer = 0; layer < head; ++layer) visits.push_back({VisitKind::forward, layer});
  visits.push_back({VisitKind::loss, head});
  plan_backward();
  if (has_backward(0)) visits.push_back({VisitKind::embedding_backward, 0});
}

/// Blocks of checkpoint_every layers, last block first: the block's layers but the last are recomputed from its
/// checkpoint in a pass of their own; the last one's recompute and backward share a visit (and one load of its
/// weights).
void Plan::plan_backward() {
  for (int last = head - 1; last > 0 && has_backward(last);) {
    int first = last;
    while (!is_checkpoint(first)) --first;
    plan_block(first, last);
    last = first - 1;
  }
}

void Plan::plan_block(int first, int last) {
  // As MegaTrain's released code: the pass over the block runs whole, and every layer's forward again before its
  // backward.
  const bool twice = parameters.forward_twice && recomputes(last);
  const bool separate = parameters.recompute_loads > 0 && recomputes(last);
  const int pass_end = twice || separate ? last : last - 1;
  for (int layer = first; layer <= pass_end; ++layer)
    visits.push_back({VisitKind::recompute, layer, 0, twice || layer < last});
  for (int layer = last; layer >= first; --layer) {
    const bool redo = recomputes(last) && (twice || layer > pass_end);
    visits.push_back({redo ? VisitKind::redo_backward : VisitKind::backward, layer, 0, redo && twice});
  }
}

std::int64_t Plan::workspace_bytes(int layer, Pass pass) const {
  const std::int64_t full = workspace_region(model, kind(layer), pass, shape(0), layout(layer)).bytes;
  if (chunks == 1) return full;
  return std::max(full, workspace_region(model, kind(layer), pass, shape(chunks - 1), layout(layer)).bytes);
}

std::array<std::int64_t, 2> Plan::update_slots() const {
  std::array<std::int64_t, 2> slots{};
  for (const auto& [layer, last] : alike) {
    std::int64_t bytes = gradient_returns(layer) ? aligned(gradient_bytes(layer)) : 0;
    for (const StateTensor& tensor : state_tensors)
      if (states_stream(layer)) bytes += aligned(state_elements(layer) * tensor.element_bytes);
    std::int64_t& slot = slots[is_edge(layer) ? 1 : 0];
    slot = std::max(slot, bytes);
  }
  return slots;
}

std::int64_t Plan::sum_bytes(int layer) const {
  return model.layers[static_cast<std::size_t>(layer)].gradient_elements *
         element_bytes(parameters.numerics.gradient_sum);
}

std::int64_t Plan::part_bytes(int layer) const {
  return model.layers[static_cast<std::size_t>(layer)].gradient_elements *
         element_bytes(parameters.numerics.gradient_link);
}

std::int64_t Plan::gradient_bytes(int layer) const {
  return state_elements(layer) * element_bytes(parameters.numerics.gradient_link);
}

namespace {
bool among_first(int layer, int count) { return count < 0 || layer <= count; }
}  // namespace

bool Plan::states_resident(int layer) const {
  const int count = parameters.resident_states;
  if (!trains(layer) && weights_stay(layer)) return true;
  if (is_edge(layer)) return count < 0 || parameters.resident_edges;
  return among_first(layer, count);
}

bool Plan::weights_stay(int layer) const {
  const int count = parameters.resident_weights;
  return among_first(layer, count) && (count < 0 || !is_edge(layer));
}

bool Plan::weights_resident(int layer) const { return states_resident(layer) || weights_stay(layer); }

bool Plan::uses_nvme() const {
  return parameters.nvme_states != 0 || parameters.nvme_weights != 0 || sums_on_nvme() ||
         std::any_of(kept_alike_.begin(), kept_alike_.end(),
                     [this](const Range& run) { return activations(run.first) == TierKind::nvme; });
}

bool Plan::optimizer_on_gpu(int layer) const {
  return trains(layer) && (parameters.optimizer_place == OptimizerPlace::gpu || states_resident(layer));
}

bool Plan::all_optimizers_on_gpu() const {
  return std::all_of(alike.begin(), alike.end(),
                     [&](const Range& run) { return !trains(run.first) || optimizer_on_gpu(run.first); });
}

bool Plan::any_optimizer_on_gpu() const {
  return std::any_of(alike.begin(), alike.end(), [&](const Range& run) { return optimizer_on_gpu(run.first); });
}

bool Plan::has_upload_copy(int layer) const {
  return parameters.upload_copies && trains(layer) && !is_edge(layer) && !states_resident(layer);
}

TierKind Plan::gradient_home(int layer) const {
  if (parameters.numerics.sum_on_host) return TierKind::dram;
  if (states_resident(layer)) return TierKind::hbm;
  if (parameters.gradients == TierKind::nvme) return state_home(layer, TensorKind::moment_m);
  return parameters.gradients;
}

bool Plan::finishes_in_place(int layer) const {
  // The sum of a tied head is read once more, by the embedding's finish.
  if (layer == head && model.config.tied_embeddings) return false;
  return parameters.numerics.gradient_sum == parameters.numerics.gradient_link;
}

void Plan::plan_state_tensors() {
  const std::int64_t moment = element_bytes(parameters.numerics.moments);
  const StateFormat format = parameters.numerics.states;
  state_tensors = {{TensorKind::weights, 2, "weights"}};
  if (format == StateFormat::planes) state_tensors.push_back({TensorKind::low_bits, 2, "low bits"});
  if (format == StateFormat::master_and_copy) state_tensors.push_back({TensorKind::master, 4, "master"});
  state_tensors.push_back({TensorKind::moment_m, moment, "m"});
  state_tensors.push_back({TensorKind::moment_v, moment, "v"});
}

TierKind Plan::state_home(int layer, TensorKind tensor) const {
  if (states_resident(layer)) return TierKind::hbm;
  const int count = tensor == TensorKind::weights ? parameters.nvme_weights : parameters.nvme_states;
  const bool among_last = count < 0 || (!is_edge(layer) && layer >= head - count);
  return among_last ? TierKind::nvme : TierKind::dram;
}

bool Plan::update_reads(TensorKind tensor) const {
  return tensor != TensorKind::weights || parameters.numerics.states != StateFormat::master_and_copy;
}

}  // namespace penstock
