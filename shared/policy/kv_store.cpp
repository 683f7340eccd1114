#include "shared/policy/kv_store.h"

#include <algorithm>

namespace penstock {

namespace {
constexpr int kSlots = 2;
}

KvStore::KvStore(Writer& writer) : writer_(writer), plan_(writer.plan()), staging_(writer) {
  if (!plan_.batch.is_cut()) return;
  const auto layers = static_cast<std::size_t>(plan_.head);
  own_.resize(layers);
  homes_.resize(layers);
  const std::int64_t sequence_bytes = plan_.kv_bytes_of_sequence();
  bool any_slot = false, any_drive = false;
  for (int layer = 1; layer < plan_.head; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    if (stays(layer)) {
      writer_.for_each_position(plan_.largest_group / plan_.chunks, [&](int sequence) {
        own_[index].add(sequence, writer_.buffer(TierKind::hbm, sequence_bytes, "kv {} ~{}", layer, sequence));
      });
      continue;
    }
    any_slot = true;
    if (!plan_.has_backward(layer)) continue;
    any_drive |= plan_.activations(layer) == TierKind::nvme;
    writer_.for_each_position(plan_.largest_group, [&](int position) {
      homes_[index].add(position,
                        writer_.buffer(plan_.activations(layer), plan_.kv_bytes(0), "kv {} @{}", layer, position));
    });
  }
  if (any_slot)
    for (int slot = 0; slot < kSlots; ++slot)
      slots_.push_back(writer_.buffer(TierKind::hbm, sequence_bytes, "kv slot {}", slot));
  if (any_drive) staging_.add_slots(plan_.parameters.activation_slots, plan_.kv_bytes(0), "kv staging");
  // fp32 for bf16.
  if (plan_.has_backward(plan_.head - 1)) gradient_ = writer_.buffer(TierKind::hbm, 2 * sequence_bytes, "kv gradient");
}

void KvStore::start() {
  for (int index = 0; plan_.batch.is_cut() && index < plan_.visit_count(); ++index) {
    const Visit visit = plan_.visit(index);
    if (!plan_.attends(visit) || stays(visit.layer)) continue;
    const Group& group = plan_.groups[static_cast<std::size_t>(visit.group)];
    for (int i = 0; i < group.count; i += plan_.chunks)
      uses_.push_back({index, visit.layer, group.first + i, visit.kind != VisitKind::forward});
  }
}

void KvStore::enter(int visit_index, int index) {
  const Visit visit = plan_.visit(visit_index);
  if (index % plan_.chunks != 0 || !plan_.attends(visit)) return;
  group_first_ = plan_.groups[static_cast<std::size_t>(visit.group)].first;
  sequence_ = index / plan_.chunks;
  if (stays(visit.layer)) return;
  const std::size_t use = next_use_++;
  written_fetches_ = std::max(written_fetches_, use);
  if (!uses_[use].fetches) return;
  // As far ahead as there are slots, but not what the next group has yet to make.
  for (; written_fetches_ < std::min(use + slots_.size(), uses_.size()); ++written_fetches_) {
    const Use& ahead = uses_[written_fetches_];
    if (!ahead.fetches || plan_.visit(ahead.visit).group != visit.group) return;
    write_fetch(written_fetches_);
  }
}

void KvStore::write_fetch(std::size_t index) {
  const Use& use = uses_[index];
  const bool ascends = plan_.visit(use.visit).kind == VisitKind::recompute;
  for (int i = 0; i < plan_.chunks; ++i) {
    const int m = use.first + (ascends ? i : plan_.chunks - 1 - i);
    staging_.bring("fetch", op_name("kv", use.layer, m), Phase::backward, home(use.layer, m),
                   plan_.activations(use.layer), access(TensorKind::kv, slots_[index % slots_.size()], use.layer, m));
  }
}

Place KvStore::place(int layer) const {
  return stays(layer) ? own_[static_cast<std::size_t>(layer)].at(sequence_) : slots_[(next_use_ - 1) % slots_.size()];
}

Access KvStore::access(TensorKind tensor, const Place& sequence, int layer, int micro_batch) const {
  const std::int64_t wider = tensor == TensorKind::kv_gradient ? 2 : 1;
  Place chunk = sequence;
  chunk.offset += wider * plan_.kv_bytes(0) * (micro_batch % plan_.chunks);
  return Writer::access(chunk, wider * plan_.kv_bytes(micro_batch), {tensor, layer, 0, micro_batch});
}

Access KvStore::home(int layer, int micro_batch) const {
  return Writer::access(homes_[static_cast<std::size_t>(layer)].at(micro_batch - group_first_),
                        plan_.kv_bytes(micro_batch), {TensorKind::kv, layer, 0, micro_batch});
}

void KvStore::add_reads(Op& op, int layer, int micro_batch, bool with_own) const {
  for (int m = micro_batch - micro_batch % plan_.chunks; m < micro_batch + (with_own ? 1 : 0); ++m)
    op.reads.push_back(access(TensorKind::kv, place(layer), layer, m));
}

void KvStore::add_gradients(Op& op, int layer, int micro_batch) const {
  const bool adds = micro_batch % plan_.chunks + 1 < plan_.chunks;
  for (int m = micro_batch - micro_batch % plan_.chunks; m <= micro_batch; ++m) {
    const Access gradient = access(TensorKind::kv_gradient, gradient_, layer, m);
    if (adds) op.reads.push_back(gradient);
    op.writes.push_back(gradient);
  }
}

void KvStore::evict(int layer, int micro_batch) {
  if (!plan_.batch.is_cut() || !is_decoder(plan_.kind(layer))) return;
  if (stays(layer) || !plan_.has_backward(layer)) return;
  staging_.send("evict", op_name("kv", layer, micro_batch), Phase::forward, made(layer, micro_batch),
                home(layer, micro_batch), plan_.activations(layer));
}

}  // namespace penstock
