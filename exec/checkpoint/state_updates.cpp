#include "exec/checkpoint/state_updates.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace penstock::exec {
namespace {

constexpr TensorKind kStates[] = {TensorKind::weights, TensorKind::low_bits, TensorKind::master, TensorKind::moment_m,
                                  TensorKind::moment_v};

const Buffer& buffer_of(const Schedule& schedule, const Access& access) {
  return schedule.buffers[static_cast<std::size_t>(access.buffer)];
}

bool on_gpu(const Schedule& schedule, const Access& access) {
  return schedule.tiers[static_cast<std::size_t>(buffer_of(schedule, access).tier)].kind == TierKind::hbm;
}

/// Bytes of a tier and the layer whose states they hold.
struct Place {
  std::int64_t begin = 0, end = 0;
  int layer = 0;
};
/// By tier, ascending; they do not overlap.
using Places = std::map<int, std::vector<Place>>;

Places places_of(const Schedule& schedule, const Model& model, std::set<int>& on_gpu_layers) {
  Places places;
  for (int layer = 0; layer < model.layer_count(); ++layer)
    for (const TensorKind tensor : kStates) {
      const Access* access = state_place(schedule, tensor, layer);
      if (access == nullptr) continue;
      const Buffer& buffer = buffer_of(schedule, *access);
      const std::int64_t begin = buffer.offset_bytes + access->offset_bytes;
      places[buffer.tier].push_back({begin, begin + access->bytes, layer});
      if (on_gpu(schedule, *access)) on_gpu_layers.insert(layer);
    }
  for (auto& [tier, all] : places)
    std::sort(all.begin(), all.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
  return places;
}

}  // namespace

const Access* state_place(const Schedule& schedule, TensorKind tensor, int layer) {
  const Access* found = nullptr;
  for (const Access& access : schedule.initial)
    if (access.value.tensor == tensor && access.value.layer == layer)
      if (found == nullptr || !on_gpu(schedule, access)) found = &access;
  return found;
}

StateUpdates state_updates(const Schedule& schedule, const Model& model) {
  StateUpdates updates;
  std::set<int> on_gpu_layers;
  const Places places = places_of(schedule, model, on_gpu_layers);
  updates.first_op.assign(static_cast<std::size_t>(model.layer_count()), -1);
  updates.layers.resize(schedule.ops.size());
  for (const Op& op : schedule.ops) {
    std::set<int> layers;
    for (const Access& access : op.writes) {
      const Buffer& buffer = buffer_of(schedule, access);
      const auto of_tier = places.find(buffer.tier);
      if (of_tier == places.end()) continue;
      const std::int64_t begin = buffer.offset_bytes + access.offset_bytes, end = begin + access.bytes;
      auto place = std::upper_bound(of_tier->second.begin(), of_tier->second.end(), begin,
                                    [](std::int64_t at, const Place& candidate) { return at < candidate.end; });
      for (; place != of_tier->second.end() && place->begin < end; ++place) layers.insert(place->layer);
    }
    for (const int layer : layers)
      if (int& first = updates.first_op[static_cast<std::size_t>(layer)]; first < 0) first = op.id;
    updates.layers[static_cast<std::size_t>(op.id)].assign(layers.begin(), layers.end());
  }
  for (int layer = 0; layer < model.layer_count(); ++layer) updates.order.push_back(layer);
  const auto rank = [&](int layer) {
    const int first = updates.first_op[static_cast<std::size_t>(layer)];
    return std::tuple(!on_gpu_layers.contains(layer), first < 0, first, layer);
  };
  std::sort(updates.order.begin(), updates.order.end(), [&](int a, int b) { return rank(a) < rank(b); });
  updates.on_gpu = static_cast<int>(on_gpu_layers.size());
  return updates;
}

double stall_of_save(const StateUpdates& updates, std::span<const double> write_seconds,
                     std::span<const double> update_seconds) {
  double written = 0, before_training = 0, late = 0;
  for (std::size_t i = 0; i < updates.order.size(); ++i) {
    const auto layer = static_cast<std::size_t>(updates.order[i]);
    written += write_seconds[layer];
    if (i < static_cast<std::size_t>(updates.on_gpu))
      before_training = written;
    else if (updates.first_op[layer] >= 0)
      late = std::max(late, written - before_training - update_seconds[layer]);
  }
  return before_training + late;
}

}  // namespace penstock::exec
