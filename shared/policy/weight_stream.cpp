#include "shared/policy/weight_stream.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace penstock {
namespace {

Phase phase_of(VisitKind kind) {
  if (kind == VisitKind::forward) return Phase::forward;
  return kind == VisitKind::loss ? Phase::loss : Phase::backward;
}

}  // namespace

WeightStream::WeightStream(Writer& writer, const std::vector<Place>& homes)
    : writer_(writer), plan_(writer.plan()), homes_(homes), fixed_slot_(homes.size(), -1) {
  make_slots();
  make_staging();
}

void WeightStream::make_slots() {
  const auto add = [&](const Place& place) {
    slots_.push_back({place, -1, -1, -1});
    return static_cast<int>(slots_.size()) - 1;
  };
  const auto streams = [&](int layer) { return !plan_.weights_resident(layer); };
  const auto is_streamed_decoder = [&](const Plan::Range& run) {
    return !plan_.is_edge(run.first) && streams(run.first);
  };
  if (std::any_of(plan_.alike.begin(), plan_.alike.end(), is_streamed_decoder)) {
    ring_ = plan_.parameters.weight_buffers;
    for (int i = 0; i < ring_; ++i)
      add(writer_.buffer(TierKind::hbm, plan_.largest_weight_bytes(), "weights slot {}", i));
  }
  const bool tied = plan_.model.config.tied_embeddings;
  if (streams(0)) {
    const std::int64_t head = streams(plan_.head) && !tied ? plan_.weight_bytes(plan_.head) : 0;
    fixed_slot_[0] = add(writer_.buffer(TierKind::hbm, std::max(plan_.weight_bytes(0), head), "weights slot edge"));
  }
  if (streams(plan_.head))
    fixed_slot_[static_cast<std::size_t>(plan_.head)] =
        tied ? add(writer_.buffer(TierKind::hbm, plan_.weight_bytes(plan_.head), "weights slot final norm"))
             : fixed_slot_[0];
  writer_.for_each_layer([&](int layer) {
    if (!streams(layer) && !plan_.states_resident(layer))
      fixed_slot_[static_cast<std::size_t>(layer)] =
          add(writer_.buffer(TierKind::hbm, plan_.weight_bytes(layer), "weights {} resident", layer));
  });
}

void WeightStream::make_staging() {
  std::int64_t edge = 0;
  bool any_decoder = false;
  for (const auto& [layer, last] : plan_.alike) {
    if (plan_.state_home(layer, TensorKind::weights) != TierKind::nvme) continue;
    if (plan_.is_edge(layer))
      edge = std::max(edge, plan_.weight_bytes(layer));
    else
      any_decoder = true;
  }
  for (int i = 0; i < plan_.parameters.weight_buffers && any_decoder; ++i)
    staging_.push_back(writer_.drive_staging(plan_.largest_weight_bytes(), "weights from nvme {}", i));
  if (edge > 0) edge_staging_ = writer_.drive_staging(edge, "weights from nvme edge");
}

void WeightStream::plan_needs() {
  visits_of_layer_.resize(homes_.size());
  for (int index = 0; index < plan_.visit_count(); ++index) {
    const Visit visit = plan_.visit(index);
    std::vector<Need> needs;
    if (visit.kind != VisitKind::embedding_backward) needs.push_back({visit.layer});
    if (visit.kind == VisitKind::loss && plan_.model.config.tied_embeddings) needs.push_back({0});
    for (const Need& need : needs)
      visits_of_layer_[static_cast<std::size_t>(need.layer)].push_back(static_cast<int>(needs_.size()));
    needs_.push_back(std::move(needs));
  }
}

void WeightStream::start() {
  plan_needs();
  place_needs(0, 0, 0);
}

void WeightStream::start_ahead() {
  if (plan_.parameters.host_waits == HostWaits::on_compute) return;
  const int ahead = plan_.parameters.weight_buffers - 2;
  place_needs(0, ahead, ahead + 1);
}

void WeightStream::after_first_op(int visit) {
  if (plan_.parameters.host_waits == HostWaits::on_compute) return;
  const int ahead = visit + plan_.parameters.weight_buffers - 1;
  place_needs(visit, ahead, ahead + 1);
}

void WeightStream::enter(int visit) {
  place_needs(visit, visit, visit);
  if (plan_.parameters.host_waits != HostWaits::per_layer) return;
  for (const Need& need : needs_[static_cast<std::size_t>(visit)])
    if (need.load >= 0)
      writer_.wait(op_name("wait for weights", need.layer), need.load, need.layer, phase_of(plan_.visit(visit).kind));
}

void WeightStream::place_needs(int visit, int through_ring, int through_edge) {
  const int last = std::min(std::max(through_ring, through_edge), static_cast<int>(needs_.size()) - 1);
  std::vector<int>
      waited_for;  // slots, in the order of visits: what needs one later is not placed before what waits for it
  for (int needing = visit; needing <= last; ++needing)
    for (Need& need : needs_[static_cast<std::size_t>(needing)]) {
      if (need.is_placed || needing > (plan_.is_edge(need.layer) ? through_edge : through_ring)) continue;
      const int fixed = fixed_slot_[static_cast<std::size_t>(need.layer)];
      if (std::find(waited_for.begin(), waited_for.end(), fixed) != waited_for.end()) continue;
      if (is_slot_taken(visit, need.layer))
        waited_for.push_back(fixed);
      else
        place(visit, needing, need);
    }
}

/// Whether the slot that `layer` always takes still serves another layer's visit.
bool WeightStream::is_slot_taken(int visit, int layer) const {
  const int fixed = fixed_slot_[static_cast<std::size_t>(layer)];
  if (fixed < 0) return false;
  const Slot& slot = slots_[static_cast<std::size_t>(fixed)];
  return slot.layer != layer && slot.last_visit >= visit;
}

void WeightStream::place(int visit, int needing_visit, Need& need) {
  need.is_placed = true;
  if (plan_.states_resident(need.layer)) return;
  const int fixed = fixed_slot_[static_cast<std::size_t>(need.layer)];
  if (fixed >= 0) {
    need.slot = fixed;
  } else {
    for (int i = 0; i < ring_ && plan_.parameters.recompute_loads == 0; ++i)
      if (slots_[static_cast<std::size_t>(i)].layer == need.layer) need.slot = i;
    if (need.slot < 0) need.slot = choose_ring_slot(visit, needing_visit);
  }
  Slot& slot = slots_[static_cast<std::size_t>(need.slot)];
  const bool reload = fixed < 0 && plan_.parameters.recompute_loads > 0;
  if (slot.layer != need.layer || reload) load(needing_visit, need, slot);
  slot.last_visit = needing_visit;
}

/// A slot that nothing between the running visit and the needing one needs; of those, the one whose layer is needed
/// last.
int WeightStream::choose_ring_slot(int visit, int needing_visit) const {
  int best = -1;
  std::pair<int, int> best_rank;
  for (int i = 0; i < ring_; ++i) {
    const Slot& slot = slots_[static_cast<std::size_t>(i)];
    if (slot.last_visit >= visit) continue;
    const std::pair<int, int> rank{next_use(needing_visit, slot.layer), -slot.last_visit};
    if (best < 0 || rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

int WeightStream::next_use(int after_visit, int layer) const {
  if (layer < 0) return std::numeric_limits<int>::max();
  const std::vector<int>& visits = visits_of_layer_[static_cast<std::size_t>(layer)];
  const auto next = std::upper_bound(visits.begin(), visits.end(), after_visit);
  return next == visits.end() ? std::numeric_limits<int>::max() : *next;
}

void WeightStream::load(int needing_visit, Need& need, Slot& slot) {
  const Phase phase = phase_of(plan_.visit(needing_visit).kind);
  if (plan_.parameters.host_waits == HostWaits::per_buffer && slot.last_load >= 0)
    writer_.wait(op_name("wait for buffer of weights", need.layer), slot.last_load, need.layer, phase);
  const int before = writer_.last_on(writer_.compute());
  const Access from = stage(need.layer, phase);
  need.load = writer_.copy(op_name("load weights", need.layer), true, phase, from,
                           Writer::access(slot.place, from.bytes, from.value));
  if (plan_.parameters.host_waits == HostWaits::on_compute && before >= 0)
    writer_.builder().add_edge(before, need.load, 0);
  slot.layer = need.layer;
  slot.last_load = need.load;
}

/// Where an upload finds the layer's weights in DRAM.
Access WeightStream::stage(int layer, Phase phase) {
  const Access home =
      Writer::access(homes_[static_cast<std::size_t>(layer)], plan_.weight_bytes(layer), {TensorKind::weights, layer});
  if (plan_.state_home(layer, TensorKind::weights) != TierKind::nvme) return home;
  const Place place = plan_.is_edge(layer) ? edge_staging_ : staging_[next_staging_++ % staging_.size()];
  const Access staged = Writer::access(place, home.bytes, home.value);
  writer_.fetch_from_nvme(op_name("read weights", layer), phase, home, staged);
  return staged;
}

std::vector<Access> WeightStream::reads(int visit) const {
  std::vector<Access> reads;
  for (const Need& need : needs_[static_cast<std::size_t>(visit)]) {
    const Place& place = need.slot >= 0 ? slots_[static_cast<std::size_t>(need.slot)].place
                                        : homes_[static_cast<std::size_t>(need.layer)];
    reads.push_back(Writer::access(place, plan_.weight_bytes(need.layer), {TensorKind::weights, need.layer}));
  }
  return reads;
}

}  // namespace penstock
