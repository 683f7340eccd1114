#include "shared/policy/gradient_stream.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace penstock {

GradientStream::GradientStream(Writer& writer)
    : writer_(writer),
      plan_(writer.plan()),
      coming_{DriveStaging(writer), DriveStaging(writer), DriveStaging(writer)},
      leaving_{DriveStaging(writer), DriveStaging(writer), DriveStaging(writer)} {
  const auto layers = static_cast<std::size_t>(plan_.model.layer_count());
  sum_.resize(layers);
  home_sum_.resize(layers);
  part_.resize(layers);
  finished_.resize(layers);
  landed_.assign(layers, -1);
  on_host() ? make_host_sums() : make_gpu_sums();
  make_finished();
  make_sum_staging();
  if (!plan_.parameters.numerics.clip) return;
  const std::int64_t bytes = 8 * plan_.model.layer_count();
  if (!on_host()) norm_hbm_ = writer_.buffer(TierKind::hbm, bytes, "norm partials");
  if (!plan_.scalars_on_gpu()) norm_dram_ = writer_.buffer(TierKind::dram, bytes, "norm partials (host)");
}

void GradientStream::start() {
  for (int index = 0; index < plan_.visit_count(); ++index)
    if (const Visit visit = plan_.visit(index); plan_.contributes(visit))
      contributions_.push_back({visit.layer, visit.group});
}

int GradientStream::class_of(int layer) const {
  if (!plan_.is_edge(layer)) return 0;
  return layer == plan_.head && plan_.model.config.tied_embeddings ? 2 : 1;
}

/// `slots` for decoder layers, one for each other class; each as large as the largest layer of its class that needs
/// one.
void GradientStream::fill_rings(Rings& rings, const std::string& name, TierKind tier, int slots,
                                const std::function<bool(int)>& needs, const std::function<std::int64_t(int)>& bytes,
                                bool for_drive) {
  static constexpr const char* kClassNames[] = {"", " edge", " head"};
  std::int64_t largest[kClasses] = {};
  for (const auto& [layer, last] : plan_.alike)
    if (plan_.trains(layer) && needs(layer))
      largest[class_of(layer)] = std::max(largest[class_of(layer)], bytes(layer));
  for (int cls = 0; cls < kClasses; ++cls)
    for (int i = 0; largest[cls] > 0 && i < (cls == 0 ? slots : 1); ++i)
      rings[cls].slots.push_back(for_drive ? writer_.drive_staging(largest[cls], "{}{} {}", name, kClassNames[cls], i)
                                           : writer_.buffer(tier, largest[cls], "{}{} {}", name, kClassNames[cls], i));
}

bool GradientStream::has_own_sum(int layer) const {
  if (on_host()) return false;
  if (plan_.gradient_home(layer) == TierKind::hbm && plan_.finishes_in_place(layer)) return true;
  return !plan_.one_group() && plan_.parameters.gradient_sums == TierKind::hbm;
}

void GradientStream::make_gpu_sums() {
  const int slots = plan_.parameters.gradient_slots;
  writer_.for_each_layer([&](int layer) {
    if (!plan_.trains(layer)) return;
    const auto index = static_cast<std::size_t>(layer);
    if (has_own_sum(layer))
      sum_[index] = writer_.buffer(TierKind::hbm, plan_.sum_bytes(layer), "gradient sum {}", layer);
    if (travels(layer))
      home_sum_[index] = plan_.sums_on_nvme()
                             ? writer_.buffer(TierKind::nvme, plan_.sum_bytes(layer), "gradient sum {} (drive)", layer)
                             : writer_.buffer(TierKind::dram, plan_.sum_bytes(layer), "gradient sum {} (host)", layer);
  });
  // A sum that is finished elsewhere and stays is free again as soon as the finish op, next on the same lane, has run.
  const bool leaves = plan_.finishes_in_place(1) || sums_travel();
  fill_rings(
      sums_, "gradient sum slot", TierKind::hbm, leaves ? slots : 1, [&](int layer) { return !has_own_sum(layer); },
      [&](int layer) { return plan_.sum_bytes(layer); });
  fill_rings(
      slabs_, "gradient slab", TierKind::hbm, slots,
      [&](int layer) { return plan_.gradient_home(layer) != TierKind::hbm && !plan_.finishes_in_place(layer); },
      [&](int layer) { return plan_.gradient_bytes(layer); });
}

void GradientStream::make_host_sums() {
  writer_.for_each_layer([&](int layer) {
    if (!plan_.trains(layer)) return;
    home_sum_[static_cast<std::size_t>(layer)] =
        writer_.buffer(TierKind::dram, plan_.sum_bytes(layer), "gradient sum {} (host)", layer);
  });
  const int slots = plan_.parameters.gradient_slots;
  const auto all = [](int) { return true; };
  const auto bytes = [&](int layer) { return plan_.part_bytes(layer); };
  fill_rings(parts_, "gradient part slot", TierKind::hbm, slots, all, bytes);
  fill_rings(landings_, "gradient part landing", TierKind::dram, slots, all, bytes);
}

/// Waiting places of finished gradients. Through a ring pass those consumed on arrival (optimizer_time = backward) and
/// those on their way to NVMe.
void GradientStream::make_finished() {
  const bool passes = plan_.parameters.optimizer_time == OptimizerTime::backward;
  const auto takes_sums_place = [&](int layer) {
    return plan_.finishes_in_place(layer) && (on_host() || plan_.gradient_home(layer) == TierKind::hbm);
  };
  const auto is_consumed = [&](int layer) {
    return passes && plan_.gradient_home(layer) == TierKind::dram && !takes_sums_place(layer);
  };
  writer_.for_each_layer([&](int layer) {
    if (!plan_.trains(layer)) return;
    const auto index = static_cast<std::size_t>(layer);
    if (takes_sums_place(layer))
      finished_[index] = on_host() ? home_sum_[index] : sum_[index];
    else if (travels(layer) && plan_.finishes_in_place(layer) &&
             plan_.gradient_home(layer) == plan_.parameters.gradient_sums)
      finished_[index] = home_sum_[index];  // the last group has fetched the sum that waited there
    else if (!is_consumed(layer))
      finished_[index] = writer_.buffer(plan_.gradient_home(layer), plan_.gradient_bytes(layer), "gradient {}", layer);
  });
  fill_rings(
      arrivals_, "gradient arrival", TierKind::dram, plan_.parameters.gradient_slots,
      [&](int layer) { return is_consumed(layer) || plan_.gradient_home(layer) == TierKind::nvme; },
      [&](int layer) { return plan_.gradient_bytes(layer); }, plan_.parameters.gradients == TierKind::nvme);
}

void GradientStream::make_sum_staging() {
  if (on_host() || !plan_.sums_on_nvme()) return;
  std::int64_t largest[kClasses] = {};
  for (const auto& [layer, last] : plan_.alike)
    if (plan_.trains(layer) && travels(layer))
      largest[class_of(layer)] = std::max(largest[class_of(layer)], plan_.sum_bytes(layer));
  static constexpr const char* kNames[][2] = {{"gradient sum coming", "gradient sum leaving"},
                                              {"gradient sum edge coming", "gradient sum edge leaving"},
                                              {"gradient sum head coming", "gradient sum head leaving"}};
  for (int cls = 0; cls < kClasses; ++cls) {
    const int slots = largest[cls] == 0 ? 0 : cls == 0 ? plan_.parameters.gradient_slots : 1;
    coming_[cls].add_slots(slots, largest[cls], kNames[cls][0]);
    leaving_[cls].add_slots(slots, largest[cls], kNames[cls][1]);
  }
}

Access GradientStream::sum(const Place& place, int layer, int micro_batch) const {
  return Writer::access(place, plan_.sum_bytes(layer), {TensorKind::gradient_sum, layer, 0, micro_batch});
}

std::optional<Access> GradientStream::sum_before(const Place& place, int layer, int micro_batch) const {
  const int turn = plan_.turn(micro_batch);
  return turn > 0 ? std::optional(sum(place, layer, plan_.turn(turn - 1))) : std::nullopt;
}

Access GradientStream::gradient(const Place& place, int layer) const {
  return Writer::access(place, plan_.gradient_bytes(layer), {TensorKind::gradient, layer});
}

Access GradientStream::partial(const Place& place, int layer) const {
  return Writer::access({place.buffer, 8 * layer}, 8, {TensorKind::norm_partial, layer});
}

void GradientStream::enter(int layer, int group) {
  Contribution& now = contributions_[next_contribution_++];
  if (!std::exchange(now.is_placed, true)) place(layer, group);
}

void GradientStream::after_first_op() {
  const std::size_t slots = sums_[0].slots.size();
  if (slots < 2 || plan_.one_group() || plan_.parameters.host_waits != HostWaits::none) return;
  // One visit ahead for each slot but the running visit's; never the same layer's next sum while this one is there.
  const std::size_t per_group = contributions_.size() / plan_.groups.size();
  const std::size_t end = std::min(next_contribution_ + std::min(slots, per_group) - 1, contributions_.size());
  for (std::size_t i = next_contribution_; i < end; ++i) {
    Contribution& ahead = contributions_[i];
    if (plan_.is_edge(ahead.layer) || !travels(ahead.layer) || std::exchange(ahead.is_placed, true)) continue;
    place(ahead.layer, ahead.group);
  }
}

/// Takes a slot for the layer's sum and brings what the groups before made of it.
void GradientStream::place(int layer, int group) {
  if (on_host()) return;
  const auto index = static_cast<std::size_t>(layer);
  if (!has_own_sum(layer)) sum_[index] = sums_[class_of(layer)].take();
  if (!travels(layer) || group == 0) return;
  const int before = last_of(group - 1);
  coming_[class_of(layer)].bring("fetch", op_name("gradient sum", layer, before), Phase::backward,
                                 sum(home_sum_[index], layer, before), plan_.parameters.gradient_sums,
                                 sum(sum_[index], layer, before));
}

void GradientStream::contribute(Op& op, int layer, int micro_batch) {
  const auto index = static_cast<std::size_t>(layer);
  if (on_host()) {
    part_[index] = parts_[class_of(layer)].take();
    op.writes.push_back(
        Writer::access(part_[index], plan_.part_bytes(layer), {TensorKind::gradient_part, layer, 0, micro_batch}));
    return;
  }
  if (const auto before = sum_before(sum_[index], layer, micro_batch)) op.reads.push_back(*before);
  op.writes.push_back(sum(sum_[index], layer, micro_batch));
}

void GradientStream::after_contribution(int layer, int micro_batch) {
  if (!on_host()) return;
  const auto index = static_cast<std::size_t>(layer);
  const Access part =
      Writer::access(part_[index], plan_.part_bytes(layer), {TensorKind::gradient_part, layer, 0, micro_batch});
  Access landed = part;
  landed.buffer = landings_[class_of(layer)].take().buffer;
  writer_.copy(op_name("gradient part", layer, micro_batch), false, Phase::backward, part, landed);
  Op op;
  op.name = op_name("accumulate", layer, micro_batch);
  op.lane = writer_.accumulate();
  op.layer = layer;
  op.micro_batch = micro_batch;
  op.phase = Phase::backward;
  op.work = AccumulateWork{plan_.model.layers[index].gradient_elements, plan_.optimizer_threads};
  op.reads = {landed};
  if (const auto before = sum_before(home_sum_[index], layer, micro_batch)) op.reads.push_back(*before);
  op.writes = {sum(home_sum_[index], layer, micro_batch)};
  writer_.add(std::move(op));
}

void GradientStream::leave(int layer, int group) {
  const auto index = static_cast<std::size_t>(layer);
  const int last = last_of(group);
  // A last sum that becomes the finished gradient in place leaves as that. Of others ZeRO-3 sends the last one too; on
  // a drive nobody would read it.
  const bool stays = last == last_micro_batch() && (plan_.finishes_in_place(layer) || plan_.sums_on_nvme());
  if (!on_host() && travels(layer) && !stays)
    leaving_[class_of(layer)].send("", op_name("gradient sum", layer, last), Phase::backward,
                                   sum(sum_[index], layer, last), sum(home_sum_[index], layer, last),
                                   plan_.parameters.gradient_sums);
  if (last == last_micro_batch()) finish(layer);
}

void GradientStream::finish(int layer) {
  const auto index = static_cast<std::size_t>(layer);
  if (finished_[index].buffer < 0) finished_[index] = arrivals_[class_of(layer)].take();
  if (on_host()) {
    write_finish_op(layer, finished_[index], norm_dram_);
    landed_[index] = writer_.next_id() - 1;
    return;
  }
  const bool leaves = plan_.gradient_home(layer) != TierKind::hbm;
  const Place target = plan_.finishes_in_place(layer) ? sum_[index]
                       : leaves                       ? slabs_[class_of(layer)].take()
                                                      : finished_[index];
  write_finish_op(layer, target, norm_hbm_);
  landed_[index] = writer_.next_id() - 1;
  if (leaves) send(layer, gradient(target, layer));
  if (plan_.parameters.numerics.clip && !plan_.scalars_on_gpu())
    writer_.copy(op_name("norm partial", layer), false, Phase::optimizer, partial(norm_hbm_, layer),
                 partial(norm_dram_, layer));
}

/// Takes a finished gradient from the GPU to where it waits.
void GradientStream::send(int layer, const Access& from) {
  int& landed = landed_[static_cast<std::size_t>(layer)];
  const Access home = finished(layer);
  const bool to_nvme = plan_.gradient_home(layer) == TierKind::nvme;
  const Access arrival = to_nvme ? gradient(arrivals_[class_of(layer)].take(), layer) : home;
  landed = writer_.copy(op_name("gradient", layer), false, Phase::backward, from, arrival);
  if (to_nvme) landed = writer_.write_nvme(op_name("write gradient", layer), Phase::backward, arrival, home);
}

void GradientStream::write_finish_op(int layer, const Place& target, const Place& partials) {
  const auto index = static_cast<std::size_t>(layer);
  const std::vector<Place>& sums = on_host() ? home_sum_ : sum_;
  Op op;
  op.name = op_name("finish gradient", layer);
  op.lane = on_host() ? writer_.accumulate() : writer_.compute();
  op.layer = layer;
  op.phase = Phase::optimizer;
  op.work = FinishGradientWork{plan_.state_elements(layer), on_host() ? plan_.optimizer_threads : 1};
  op.reads = {sum(sums[index], layer, last_micro_batch())};
  if (layer == 0 && plan_.model.config.tied_embeddings)
    op.reads.push_back(sum(sums[static_cast<std::size_t>(plan_.head)], plan_.head, last_micro_batch()));
  op.writes = {gradient(target, layer)};
  if (plan_.parameters.numerics.clip) op.writes.push_back(partial(partials, layer));
  writer_.add(std::move(op));
}

Access GradientStream::finished(int layer) const { return gradient(finished_[static_cast<std::size_t>(layer)], layer); }

std::vector<Access> GradientStream::norm_partials() const {
  std::vector<Access> partials;
  if (plan_.parameters.numerics.clip)
    for (int layer = 0; layer < plan_.model.layer_count(); ++layer)
      if (plan_.trains(layer)) partials.push_back(partial(plan_.scalars_on_gpu() ? norm_hbm_ : norm_dram_, layer));
  return partials;
}

}  // namespace penstock
