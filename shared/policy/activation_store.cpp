#include "shared/policy/activation_store.h"

#include <algorithm>

#include <fmt/format.h>

namespace penstock {

ActivationStore::ActivationStore(Writer& writer)
    : writer_(writer), plan_(writer.plan()), input_staging_(writer), kept_staging_(writer) {
  workspace_ = writer_.buffer(TierKind::hbm, plan_.workspace, "workspace");
  make_checkpoints();
  make_ring_and_regions();
  make_staging();
}

void ActivationStore::make_checkpoints() {
  int last_traveller = 0;
  std::int64_t largest_traveller = 0;
  for (int layer = 1; layer < plan_.head; ++layer)
    if (travels(layer)) {
      last_traveller = layer;
      largest_traveller = std::max(largest_traveller, plan_.kept(layer));
    }
  // Only where backward reads each layer once: a second pass over a block would find the place taken.
  const bool once = plan_.parameters.recompute_loads == 0 && !plan_.parameters.forward_twice;
  if (!plan_.parameters.keep_layers.empty() && once && last_traveller > 0) shared_ = plan_.head - 1 - last_traveller;
  checkpoints_.resize(static_cast<std::size_t>(plan_.head));
  kept_.resize(static_cast<std::size_t>(plan_.head));
  for (int layer = 1; layer < plan_.head; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const TierKind tier = plan_.activations(layer);
    const bool has_checkpoint = plan_.is_checkpoint(layer);
    const std::int64_t guests = layer > plan_.head - 1 - shared_ ? largest_traveller : 0;
    const std::int64_t bytes = std::max(plan_.kept(layer), guests);
    writer_.for_each_position(plan_.largest_group, [&](int position) {
      if (has_checkpoint)
        checkpoints_[index].add(position, writer_.buffer(tier, plan_.boundary, "boundary {} @{}", layer, position));
      if (bytes > 0) kept_[index].add(position, writer_.buffer(tier, bytes, "kept {} @{}", layer, position));
    });
  }
}

void ActivationStore::make_ring_and_regions() {
  const PolicyParameters& p = plan_.parameters;
  const int group = plan_.largest_group;
  // The largest of the layers kept alike.
  bool some_travel = false;
  std::int64_t kept_of_travellers = 0, recomputed = 0;
  for (const auto& [layer, last] : plan_.kept_alike()) {
    some_travel |= travels(layer);
    if (travels(layer)) kept_of_travellers = std::max(kept_of_travellers, plan_.kept(layer));
    recomputed = std::max(recomputed, plan_.recomputed(layer));
  }
  // Where they travel a boundary stays in the ring while it leaves, so that more slots give the copy more time.
  const bool own_ring = some_travel && shared_ == 0;
  ring_ = group + (own_ring ? std::max(1, p.activation_slots - 1) : 1);
  writer_.for_each_position(
      ring_, [&](int i) { current_.add(i, writer_.buffer(TierKind::hbm, plan_.boundary, "boundary ring {}", i)); });
  if (own_ring)
    for (int i = 0; i < p.activation_slots; ++i) {
      input_slots_.push_back(writer_.buffer(TierKind::hbm, plan_.boundary, "boundary slot {}", i));
      if (kept_of_travellers > 0)
        kept_slots_.push_back(writer_.buffer(TierKind::hbm, kept_of_travellers, "kept slot {}", i));
    }
  const int block = std::clamp(plan_.head - 1 - p.first_layers, 1, p.checkpoint_every);
  const auto grid = [&](const char* name, int rows, std::int64_t bytes) {
    std::vector<PlaceRow> places(static_cast<std::size_t>(rows));
    for (int row = 0; row < rows; ++row)
      writer_.for_each_position(group, [&](int position) {
        places[static_cast<std::size_t>(row)].add(
            position, writer_.buffer(TierKind::hbm, bytes, "{} {} @{}", name, row, position));
      });
    return places;
  };
  block_inputs_ = grid("block boundary", block - 1, plan_.boundary);
  if (recomputed == 0) return;
  if (p.forward_twice) {
    redo_output_ = writer_.buffer(TierKind::hbm, plan_.boundary, "recompute output");
  } else {
    recomputed_ = grid("recomputed", p.recompute_loads > 0 ? block : block - 1, recomputed);
  }
  if (p.forward_twice || p.recompute_loads == 0)
    redo_recomputed_ = writer_.buffer(TierKind::hbm, recomputed, "recomputed");
}

void ActivationStore::make_staging() {
  std::int64_t kept = 0;
  bool any = false;
  for (const auto& [layer, last] : plan_.kept_alike()) {
    if (plan_.activations(layer) != TierKind::nvme) continue;
    kept = std::max(kept, plan_.kept(layer));
    any = true;
  }
  const int slots = plan_.parameters.activation_slots;
  if (any) input_staging_.add_slots(slots, plan_.boundary, "boundary staging");
  if (kept > 0) kept_staging_.add_slots(slots, kept, "kept staging");
}

void ActivationStore::plan_uses() {
  std::size_t arrivals = 0;
  for (int index = 0; index < plan_.visit_count(); ++index) {
    const Visit visit = plan_.visit(index);
    const bool reads = visit.kind == VisitKind::recompute || visit.kind == VisitKind::backward ||
                       visit.kind == VisitKind::redo_backward;
    if (!reads || !(plan_.is_checkpoint(visit.layer) || has_kept(visit.layer))) continue;
    for (int i = 0; i < plan_.groups[static_cast<std::size_t>(visit.group)].count; ++i) {
      uses_.push_back({index, visit.layer, plan_.position(visit, i), arrivals});
      if (travels(visit.layer)) ++arrivals;
    }
  }
}

void ActivationStore::start() {
  current_of_.assign(static_cast<std::size_t>(plan_.largest_group), 0);
  plan_uses();
}

void ActivationStore::start_group(int group) {
  group_index_ = group;
  group_ = plan_.groups[static_cast<std::size_t>(group)];
}

Access ActivationStore::boundary(const Place& place, int layer, int position) const {
  const int m = micro_batch(position);
  return Writer::access(place, plan_.boundary_of(m), {TensorKind::boundary, layer, 0, m});
}

std::size_t ActivationStore::ring_layer(int layer) const {
  const int first = plan_.head - shared_;
  const int behind = (layer - first) % shared_;
  return static_cast<std::size_t>(first + (behind < 0 ? behind + shared_ : behind));
}

Access ActivationStore::forward_input(int layer, int position) const {
  if (in_shared_ring(layer)) return boundary(checkpoints_[ring_layer(layer)].at(position), layer, position);
  if (plan_.is_checkpoint(layer) && !travels(layer))
    return boundary(checkpoints_[static_cast<std::size_t>(layer)].at(position), layer, position);
  return boundary(current_.at(current_of_[static_cast<std::size_t>(position)]), layer, position);
}

Access ActivationStore::forward_output(int layer, int position) {
  const int next = layer + 1;
  if (next < plan_.head && in_shared_ring(next)) return forward_input(next, position);
  if (plan_.is_checkpoint(next) && !travels(next))
    return boundary(checkpoints_[static_cast<std::size_t>(next)].at(position), next, position);
  current_of_[static_cast<std::size_t>(position)] = next_current_;
  const Access output = boundary(current_.at(next_current_), next, position);
  next_current_ = (next_current_ + 1) % ring_;
  return output;
}

Access ActivationStore::forward_kept(int layer, int position) const {
  const Place place = in_shared_ring(layer) ? kept_[ring_layer(layer)].at(position)
                      : travels(layer)      ? kept_slots_[static_cast<std::size_t>(next_kept_slot_)]
                                            : kept_[static_cast<std::size_t>(layer)].at(position);
  const int m = micro_batch(position);
  return Writer::access(place, plan_.kept(layer, m), {TensorKind::kept, layer, 0, m});
}

void ActivationStore::evict(int layer, int position) {
  if (const int next = layer + 1; next < plan_.head && plan_.is_checkpoint(next) && travels(next))
    input_staging_.send(
        "evict", op_name("boundary", next, micro_batch(position)), Phase::forward, forward_input(next, position),
        boundary(checkpoints_[static_cast<std::size_t>(next)].at(position), next, position), plan_.activations(next));
  if (layer < 1 || !travels(layer) || !has_kept(layer)) return;
  const Access from = forward_kept(layer, position);
  kept_staging_.send("evict", op_name("kept", layer, micro_batch(position)), Phase::forward, from,
                     Writer::access(kept_[static_cast<std::size_t>(layer)].at(position), from.bytes, from.value),
                     plan_.activations(layer));
  if (shared_ == 0) next_kept_slot_ = (next_kept_slot_ + 1) % static_cast<int>(kept_slots_.size());
}

void ActivationStore::fetch(int visit, int position) {
  if (next_use_ == uses_.size() || uses_[next_use_].visit != visit || uses_[next_use_].position != position) return;
  const std::size_t through = next_use_ + slots();
  while (written_fetches_ < std::min(through, uses_.size()) &&
         plan_.visit(uses_[written_fetches_].visit).group == group_index_)
    write_fetch(written_fetches_++);
  ++next_use_;
}

void ActivationStore::write_fetch(std::size_t index) {
  const Use& use = uses_[index];
  if (!travels(use.layer)) return;
  const auto layer = static_cast<std::size_t>(use.layer);
  const TierKind home = plan_.activations(use.layer);
  if (plan_.is_checkpoint(use.layer))
    input_staging_.bring("fetch", op_name("boundary", use.layer, micro_batch(use.position)), Phase::backward,
                         boundary(checkpoints_[layer].at(use.position), use.layer, use.position), home,
                         boundary(input_place(use.layer, use.position, use.arrival), use.layer, use.position));
  if (!has_kept(use.layer)) return;
  const int m = micro_batch(use.position);
  const Value value{TensorKind::kept, use.layer, 0, m};
  const std::int64_t bytes = plan_.kept(use.layer, m);
  kept_staging_.bring("fetch", op_name("kept", use.layer, m), Phase::backward,
                      Writer::access(kept_[layer].at(use.position), bytes, value), home,
                      Writer::access(kept_place(use.layer, use.position, use.arrival), bytes, value));
}

Place ActivationStore::input_place(int layer, int position, std::size_t arrival) const {
  if (!travels(layer)) return checkpoints_[static_cast<std::size_t>(layer)].at(position);
  return shared_ > 0 ? checkpoints_[ring_layer(layer)].at(position) : input_slots_[arrival % input_slots_.size()];
}

Place ActivationStore::kept_place(int layer, int position, std::size_t arrival) const {
  if (!travels(layer)) return kept_[static_cast<std::size_t>(layer)].at(position);
  return shared_ > 0 ? kept_[ring_layer(layer)].at(position) : kept_slots_[arrival % kept_slots_.size()];
}

Access ActivationStore::backward_input(int layer, int position) const {
  if (!plan_.is_checkpoint(layer))
    return boundary(block_inputs_[static_cast<std::size_t>(plan_.block_index(layer) - 1)].at(position), layer,
                    position);
  return boundary(input_place(layer, position, arrival_in_use()), layer, position);
}

Access ActivationStore::kept(int layer, int position) const {
  const int m = micro_batch(position);
  return Writer::access(kept_place(layer, position, arrival_in_use()), plan_.kept(layer, m),
                        {TensorKind::kept, layer, 0, m});
}

Access ActivationStore::recomputed(const Visit& visit, int position) const {
  const bool redo = visit.kind == VisitKind::redo_backward || plan_.parameters.forward_twice;
  const Place place =
      redo ? redo_recomputed_ : recomputed_[static_cast<std::size_t>(plan_.block_index(visit.layer))].at(position);
  const int m = micro_batch(position);
  return Writer::access(place, plan_.recomputed(visit.layer, m), {TensorKind::recomputed, visit.layer, 0, m});
}

Access ActivationStore::recompute_output(const Visit& visit, int position) const {
  const int next = visit.layer + 1;
  const bool ends_block = next == plan_.head || plan_.is_checkpoint(next);
  if (ends_block || visit.kind == VisitKind::redo_backward) return boundary(redo_output_, next, position);
  return boundary(block_inputs_[static_cast<std::size_t>(plan_.block_index(next) - 1)].at(position), next, position);
}

Access ActivationStore::boundary_gradient(int layer, int position) const {
  // The head's inputs lie in the ring one after the other; the slot before the first is free, and each loss op frees
  // the one that the next writes.
  const int turn = plan_.turn(position), behind = turn > 0 ? plan_.turn(turn - 1) : -1;
  const int m = micro_batch(position);
  return Writer::access(current_.at((current_of_[0] + behind + ring_) % ring_), plan_.boundary_of(m),
                        {TensorKind::boundary_gradient, layer, 0, m});
}

}  // namespace penstock
