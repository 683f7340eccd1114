#include "sim/planner/step_traffic.h"

#include <algorithm>
#include <cmath>

namespace penstock::sim {
namespace {

class Ledger {
 public:
  explicit Ledger(const Plan& plan) : plan_(plan), groups_(static_cast<std::int64_t>(plan.groups.size())) {}

  StepTraffic count() {
    for (const Visit& visit : plan_.visits) count_activations(visit);
    if (on_host()) count_host_sums();
    traffic_.ring_h2d = fewest_loads() * plan_.smallest_weight_bytes();
    traffic_.host_pass_bytes =
        std::llround(plan_.parameters.host_pass_bytes_per_parameter * static_cast<double>(plan_.model.parameters));
    for (const Plan::Range& run : plan_.alike) {
      const std::int64_t layers = run.last - run.first + 1;
      count_weights(run.first, layers);
      count_gradients(run.first, layers);
      count_update(run.first, layers);
      count_drive(run.first, layers);
    }
    traffic_.ring_nvme_read =
        (from_drive_ + (groups_ - 1) * beyond_ring(from_drive_) + groups_ * beyond_ring(back_from_drive_)) *
        plan_.smallest_weight_bytes();
    return traffic_;
  }

 private:
  bool on_host() const { return plan_.parameters.numerics.sum_on_host; }
  /// Of activations that leave HBM, or come back.
  void leaves(int layer, std::int64_t bytes) {
    if (plan_.activations(layer) != TierKind::hbm) traffic_.d2h += bytes;
    if (plan_.activations(layer) == TierKind::nvme) traffic_.nvme_write += bytes;
  }
  void returns(int layer, std::int64_t bytes) {
    if (plan_.activations(layer) != TierKind::hbm) traffic_.h2d += bytes;
    if (plan_.activations(layer) == TierKind::nvme) traffic_.nvme_read += bytes;
  }
  std::int64_t beyond_ring(std::int64_t layers) const {
    return std::max<std::int64_t>(0, layers - plan_.parameters.weight_buffers);
  }

  /// Embedding and head share a slot, where a tied head finds the embedding.
  std::int64_t edge_loads() const { return plan_.model.config.tied_embeddings ? 1 : groups_; }

  /// Every group makes the same visits; together they see each micro-batch once.
  void count_activations(const Visit& visit) {
    const int layer = visit.layer;
    const std::int64_t boundaries = all([&](int m) { return plan_.boundary_of(m); });
    const auto kept = [&] { return all([&](int m) { return plan_.kept(layer, m); }); };
    const std::int64_t keys = plan_.attends(visit) ? all([&](int m) { return plan_.kv_bytes(m); }) : 0;
    if (visit.kind == VisitKind::forward) {
      if (const int next = layer + 1; next < plan_.head && plan_.is_checkpoint(next)) leaves(next, boundaries);
      if (layer > 0) leaves(layer, kept() + (plan_.has_backward(layer) ? keys : 0));
    } else if (is_decoder(plan_.kind(layer))) {
      if (plan_.is_checkpoint(layer)) returns(layer, boundaries);
      returns(layer, kept() + keys);
    }
  }

  /// Over the micro-batches of the step.
  template <typename BytesOf>
  std::int64_t all(const BytesOf& bytes_of) const {
    return plan_.micro_batches / plan_.chunks * sum_over_sequence(plan_, bytes_of);
  }

  void count_host_sums() {
    for (const Visit& visit : plan_.visits) {
      if (!plan_.contributes(visit)) continue;
      const std::int64_t part = plan_.part_bytes(visit.layer), sum = plan_.sum_bytes(visit.layer);
      traffic_.d2h += plan_.micro_batches * part;
      traffic_.host_sum_bytes += plan_.micro_batches * (part + 2 * sum) - sum;  // the first is not added to anything
    }
  }

  /// Decoder loads of all groups.
  std::int64_t fewest_loads() const {
    std::int64_t forward = 0, backward = 0;
    for (int first = 1, end = 1; first < plan_.head; first = end) {
      std::int64_t streamed = 0;
      for (end = first; end < plan_.head && (end == first || !plan_.is_checkpoint(end)); ++end)
        if (!plan_.weights_resident(end)) ++streamed;
      forward += streamed;
      if (first < plan_.model.lowest_trained) continue;
      // The pass that recomputes the block, and the way back down. A block of one layer is one visit.
      backward += streamed + (plan_.recomputes(first) && end > first + 1 ? beyond_ring(streamed) : 0);
    }
    return forward + (groups_ - 1) * beyond_ring(forward) + groups_ * beyond_ring(backward);
  }

  void count_weights(int layer, std::int64_t layers) {
    if (plan_.states_resident(layer)) return;
    const std::int64_t bytes = layers * plan_.weight_bytes(layer);
    if (plan_.weights_resident(layer))
      traffic_.h2d += bytes;
    else if (plan_.is_edge(layer))
      traffic_.h2d += bytes * edge_loads();
  }

  void count_gradients(int layer, std::int64_t layers) {
    if (!plan_.trains(layer)) return;
    const std::int64_t sum = plan_.sum_bytes(layer);
    const bool home_in_hbm = plan_.gradient_home(layer) == TierKind::hbm;
    (on_host() ? traffic_.host_sum_bytes : traffic_.gpu_finish_bytes) += layers * finish_bytes(plan_, layer);
    if (on_host()) return;
    const bool own = (home_in_hbm && plan_.finishes_in_place(layer)) ||
                     (groups_ > 1 && plan_.parameters.gradient_sums == TierKind::hbm);
    if (plan_.sums_on_nvme() && !own) {
      const std::int64_t bytes = layers * (groups_ - 1) * sum;
      traffic_.h2d += bytes;
      traffic_.d2h += bytes;
      traffic_.nvme_read += bytes;
      traffic_.nvme_write += bytes;
    }
    if (plan_.parameters.gradient_sums == TierKind::dram && !own) {
      traffic_.h2d += layers * (groups_ - 1) * sum;
      // The last one leaves as the finished gradient if that takes its place.
      traffic_.d2h += layers * (plan_.finishes_in_place(layer) ? groups_ - 1 : groups_) * sum;
    }
    if (!home_in_hbm || !plan_.optimizer_on_gpu(layer)) traffic_.d2h += layers * plan_.gradient_bytes(layer);
  }

  void count_update(int layer, std::int64_t layers) {
    if (!plan_.trains(layer)) return;
    const std::int64_t elements = layers * plan_.state_elements(layer);
    if (plan_.has_upload_copy(layer)) traffic_.host_pass_bytes += 2 * layers * plan_.weight_bytes(layer);
    if (!plan_.optimizer_on_gpu(layer)) {
      traffic_.host_elements += elements;
      return;
    }
    traffic_.gpu_resident_elements += layers * gpu_resident_elements(plan_, layer);
    if (!plan_.states_resident(layer)) {
      traffic_.gpu_streamed_elements += elements;
      for (const Plan::StateTensor& tensor : plan_.state_tensors) {
        traffic_.h2d += elements * tensor.element_bytes;
        traffic_.d2h += elements * tensor.element_bytes;
      }
    }
    if (plan_.gradient_home(layer) != TierKind::hbm) traffic_.h2d += layers * plan_.gradient_bytes(layer);
  }

  void count_drive(int layer, std::int64_t layers) {
    if (plan_.state_home(layer, TensorKind::weights) == TierKind::nvme) {
      if (plan_.weights_resident(layer))
        traffic_.nvme_read += layers * plan_.weight_bytes(layer);
      else if (plan_.is_edge(layer))
        traffic_.nvme_read += layers * plan_.weight_bytes(layer) * edge_loads();
      else {
        from_drive_ += layers;
        if (plan_.has_backward(layer)) back_from_drive_ += layers;
      }
    }
    if (!plan_.trains(layer)) return;
    for (const Plan::StateTensor& tensor : plan_.state_tensors) {
      if (plan_.state_home(layer, tensor.tensor) != TierKind::nvme) continue;
      const std::int64_t bytes = layers * plan_.state_elements(layer) * tensor.element_bytes;
      if (plan_.update_reads(tensor.tensor)) traffic_.nvme_read += bytes;
      traffic_.nvme_write += bytes;
    }
    if (plan_.gradient_home(layer) != TierKind::nvme) return;
    traffic_.nvme_read += layers * plan_.gradient_bytes(layer);
    traffic_.nvme_write += layers * plan_.gradient_bytes(layer);
  }

  const Plan& plan_;
  std::int64_t groups_;
  std::int64_t from_drive_ = 0;       // decoder layers whose weights pass from there through a ring
  std::int64_t back_from_drive_ = 0;  // those of them that backward visits
  StepTraffic traffic_;
};

}  // namespace

std::int64_t finish_bytes(const Plan& plan, int layer) {
  const bool adds_head = layer == 0 && plan.model.config.tied_embeddings;
  return plan.sum_bytes(layer) + (adds_head ? plan.sum_bytes(plan.head) : 0) + plan.gradient_bytes(layer);
}

std::int64_t gpu_resident_elements(const Plan& plan, int layer) {
  return plan.optimizer_on_gpu(layer) && plan.states_resident(layer) ? plan.state_elements(layer) : 0;
}

StepTraffic step_traffic(const Plan& plan) { return Ledger(plan).count(); }

}  // namespace penstock::sim
