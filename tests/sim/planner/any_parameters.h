// Points of the whole space of policies, contradictions among them.
#pragma once

#include <initializer_list>
#include <random>

#include "shared/policy/parameters.h"

namespace penstock::sim::test {

template <typename T>
T any_of(std::mt19937& random, std::initializer_list<T> values) {
  return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random));
}

inline PolicyParameters any_parameters(std::mt19937& random) {
  const auto& infos = presets();
  PolicyParameters p =
      preset_parameters(infos[std::uniform_int_distribution<std::size_t>(0, infos.size() - 1)(random)].name);
  p.group = any_of(random, {0, 1, 2});
  p.weight_buffers = any_of(random, {1, 2, 3, 6});
  p.resident_weights = any_of(random, {-1, 0, 0, 2, 5});
  p.resident_states = any_of(random, {-1, 0, 0, 1, 3});
  p.nvme_states = any_of(random, {0, 0, -1, 1, 2});
  p.nvme_weights = any_of(random, {p.nvme_states, 0});
  p.nvme_slots = any_of(random, {1, 2, 3});
  p.keep = any_of(random, {Keep::input, Keep::input_context, Keep::input_attention, Keep::everything});
  p.checkpoint_every = any_of(random, {1, 1, 2, 3});
  p.activations = any_of(random, {TierKind::hbm, TierKind::dram, TierKind::nvme});
  p.first_layers = any_of(random, {0, 0, 1, 3, 5});
  p.first_keep = any_of(random, {Keep::input, Keep::input_context, Keep::input_attention, Keep::everything});
  p.first_activations = any_of(random, {TierKind::hbm, TierKind::dram, TierKind::nvme});
  p.gradients = any_of(random, {TierKind::hbm, TierKind::dram, p.nvme_states != 0 ? TierKind::nvme : TierKind::dram});
  p.gradient_sums = any_of(random, {TierKind::hbm, TierKind::dram, TierKind::nvme});
  p.optimizer_place = any_of(random, {OptimizerPlace::host, OptimizerPlace::gpu});
  if (p.nvme_states != 0) p.optimizer_place = OptimizerPlace::host;
  p.optimizer_time = any_of(random, {OptimizerTime::end, OptimizerTime::next_forward});
  return p;
}

}  // namespace penstock::sim::test
