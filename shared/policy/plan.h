// What follows from the parameters before any op is written: groups, visits, sizes, and which layer's data lives where.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "shared/policy/parameters.h"

namespace penstock {

/// Consecutive micro-batches that visit a layer together: all chunks of each of its sequences, where those are cut.
struct Group {
  int first = 0;
  int count = 0;
};

/// What a visit does with one layer for each micro-batch of a group.
enum class VisitKind {
  forward,        // embedding and decoder
  loss,           // head
  recompute,      // decoder: fill recomputed(l, m) of a block, and the input of the block's next layer
  backward,       // decoder, from regions that are all there
  redo_backward,  // decoder: recompute, then backward, micro-batch by micro-batch
  embedding_backward,
};

struct Visit {
  VisitKind kind = VisitKind::forward;
  int layer = 0;
  int group = 0;
  bool writes_output = false;  // of a recompute: makes the next layer's input too
};

struct Plan {
  explicit Plan(const PolicyInput& policy_input);

  const PolicyInput& input;
  const PolicyParameters& parameters;
  const Model& model;
  BatchShape batch;       // one micro-batch, or the sequence that is cut into several
  int chunks = 1;         // of a sequence; 1: it is not cut
  int micro_batches = 0;  // per step
  int head = 0;           // index of the head
  std::vector<Group> groups;
  int largest_group = 0;
  std::vector<Visit> visits;  // of the first group, in order; every group makes the same. No place depends on them

  std::int64_t boundary = 0;   // bytes of the largest boundary activation
  std::int64_t workspace = 0;  // the largest of any template op; and update slots that lie in it
  int optimizer_threads = 1;

  /// What the ops of a micro-batch work on.
  BatchShape shape(int micro_batch) const { return chunk_of(batch, micro_batch % chunks); }
  /// Which micro-batch adds to gradients at that turn, and when a micro-batch does; also of places in a group.
  int turn(int micro_batch) const { return turn_of(micro_batch, chunks); }
  /// Which place of a group a visit's `index`-th op is of: passes that add to gradients take them in their turns.
  int position(const Visit& visit, int index) const {
    return visit.kind == VisitKind::forward || visit.kind == VisitKind::recompute ? index : turn(index);
  }

  /// Bytes of a decoder layer's regions for one micro-batch: the largest, or that one's.
  std::int64_t kept(int layer) const { return largest(kept_, layer); }
  std::int64_t recomputed(int layer) const { return has_backward(layer) ? largest(recomputed_, layer) : 0; }
  bool recomputes(int layer) const { return recomputed(layer) > 0; }
  std::int64_t kept(int layer, int micro_batch) const { return of(kept_, layer, micro_batch); }
  std::int64_t recomputed(int layer, int micro_batch) const { return of(recomputed_, layer, micro_batch); }
  std::int64_t boundary_of(int micro_batch) const { return boundary_bytes(model, shape(micro_batch)); }
  /// Of keys and values of a layer, of one chunk and of a whole sequence; 0 where none is cut.
  std::int64_t kv_bytes(int micro_batch) const {
    return 2 * kv_elements(model, batch.is_cut() ? shape(micro_batch).tokens() : 0);
  }
  std::int64_t kv_bytes_of_sequence() const {
    return 2 * kv_elements(model, batch.is_cut() ? batch.sequence_length : 0);
  }
  /// Whether the visit's ops find keys and values of the chunks before theirs.
  bool attends(const Visit& visit) const {
    if (!batch.is_cut() || !is_decoder(kind(visit.layer))) return false;
    return visit.kind != VisitKind::recompute || penstock::attends(Pass::recompute, keep(visit.layer));
  }
  LayoutOptions layout(int layer) const;
  Keep keep(int layer) const { return stays_[static_cast<std::size_t>(layer)].keep; }
  /// Where a decoder layer's input and kept region wait.
  TierKind activations(int layer) const { return stays_[static_cast<std::size_t>(layer)].activations; }
  /// Neighbouring decoder layers of one kind that are kept alike: those below the lowest that trains, first_layers, those of
  /// keep_layers, and the others.
  struct Range {
    int first = 0, last = 0;
  };
  const std::vector<Range>& kept_alike() const { return kept_alike_; }
  /// All layers, as runs of one kind whose data have the same homes.
  std::vector<Range> alike;
  bool one_group() const { return groups.size() == 1; }
  /// Visits of the whole step: group after group.
  int visit_count() const { return static_cast<int>(groups.size() * visits.size()); }
  Visit visit(int index) const {
    Visit found = visits[static_cast<std::size_t>(index) % visits.size()];
    found.group = static_cast<int>(static_cast<std::size_t>(index) / visits.size());
    return found;
  }
  LayerKind kind(int layer) const { return model.layers[static_cast<std::size_t>(layer)].kind; }
  bool trains(int layer) const { return model.layers[static_cast<std::size_t>(layer)].trains; }
  /// Whether backward comes to the layer at all.
  bool has_backward(int layer) const { return layer >= model.lowest_trained; }
  /// Whether the visit adds to its layer's gradient.
  bool contributes(const Visit& visit) const {
    return trains(visit.layer) && visit.kind != VisitKind::forward && visit.kind != VisitKind::recompute;
  }
  Pass backward_pass(int layer) const { return trains(layer) ? Pass::backward : Pass::input_backward; }
  Pass loss_pass() const { return trains(head) ? Pass::loss : Pass::input_loss; }
  bool is_edge(int layer) const { return layer == 0 || layer == head; }
  /// The place of decoder layer `layer` in its block; blocks begin behind the first layers, which are one each, and
  /// with the lowest layer that trains. REQUIRES: has_backward(layer).
  int block_index(int layer) const {
    const int in_block = is_first(layer) ? 0 : (layer - 1 - parameters.first_layers) % parameters.checkpoint_every;
    return std::min(in_block, layer - model.lowest_trained);
  }
  /// Whether decoder layer `layer`'s input waits for backward (else it is recomputed from its block's checkpoint).
  bool is_checkpoint(int layer) const { return layer != head && has_backward(layer) && block_index(layer) == 0; }
  std::int64_t workspace_bytes(int layer, Pass pass) const;

  std::int64_t state_elements(int layer) const { return model.layers[static_cast<std::size_t>(layer)].state_elements; }
  std::int64_t weight_bytes(int layer) const { return 2 * state_elements(layer); }
  /// Of the largest and the smallest decoder layer: what a slot of the ring must hold, and what a load moves at least.
  std::int64_t largest_weight_bytes() const { return 2 * model.largest_decoder().state_elements; }
  std::int64_t smallest_weight_bytes() const { return 2 * model.smallest_decoder().state_elements; }
  std::int64_t sum_bytes(int layer) const;       // gradient_sum
  std::int64_t part_bytes(int layer) const;      // gradient_part
  std::int64_t gradient_bytes(int layer) const;  // gradient, finished

  bool weights_resident(int layer) const;  // in HBM through the step
  bool states_resident(int layer) const;   // states, and so the weights' home, in HBM; a frozen layer has no others
  bool uses_nvme() const;
  /// Whether sums of gradients wait on NVMe between groups; one group leaves none to wait.
  bool sums_on_nvme() const { return parameters.gradient_sums == TierKind::nvme && !one_group(); }
  bool optimizer_on_gpu(int layer) const;
  bool all_optimizers_on_gpu() const;
  bool any_optimizer_on_gpu() const;
  /// Whether the layer's states come to the GPU for their update and leave it again.
  bool states_stream(int layer) const { return optimizer_on_gpu(layer) && !states_resident(layer); }
  /// Whether its finished gradient waits elsewhere and comes back for an update on the GPU.
  bool gradient_returns(int layer) const { return optimizer_on_gpu(layer) && gradient_home(layer) != TierKind::hbm; }
  /// Bytes of a place through which a layer is updated on the GPU, [decoder, edge]: its streamed states, and behind
  /// them a gradient that returns; 0: none is. There are two for decoder layers.
  std::array<std::int64_t, 2> update_slots() const;
  /// Whether these places are bytes of the workspace: no other op has use for it behind the last backward op.
  bool update_slots_in_workspace() const { return parameters.optimizer_time == OptimizerTime::end; }
  bool scalars_on_gpu() const { return all_optimizers_on_gpu() && !parameters.numerics.sum_on_host; }
  bool has_upload_copy(int layer) const;    // weights cross the link from a copy beside the state
  TierKind gradient_home(int layer) const;  // where the finished gradient waits
  bool finishes_in_place(int layer) const;  // gradient takes the place of the sum
  struct StateTensor {
    TensorKind tensor;
    std::int64_t element_bytes;
    const char* name;
  };
  std::vector<StateTensor> state_tensors;                   // of the format
  TierKind state_home(int layer, TensorKind tensor) const;  // where it lies between steps
  /// Whether AdamW needs the old value. With an fp32 master the bf16 weights are only written.
  bool update_reads(TensorKind tensor) const;

 private:
  bool weights_stay(int layer) const;  // by resident_weights alone
  bool is_first(int layer) const { return layer > 0 && layer <= parameters.first_layers; }
  void plan_keeping();
  void plan_groups();
  void plan_visits();
  void plan_backward();
  void plan_block(int first, int last);
  void plan_state_tensors();
  void plan_alike();

  /// By LayerKind and Keep, of a full micro-batch and of a sequence's last chunk.
  using RegionBytes = std::array<std::array<std::array<std::int64_t, 2>, kKeeps.size()>, kLayerKinds.size()>;
  const std::array<std::int64_t, 2>& of_layer(const RegionBytes& bytes, int layer) const {
    return bytes[static_cast<std::size_t>(kind(layer))][static_cast<std::size_t>(keep(layer))];
  }
  std::int64_t largest(const RegionBytes& bytes, int layer) const {
    const auto& [full, last] = of_layer(bytes, layer);
    return std::max(full, last);
  }
  std::int64_t of(const RegionBytes& bytes, int layer, int micro_batch) const {
    return of_layer(bytes, layer)[(micro_batch + 1) % chunks == 0 ? 1 : 0];
  }

  /// What a layer leaves for backward, and where.
  struct Stay {
    Keep keep = Keep::input;
    TierKind activations = TierKind::hbm;

    bool operator==(const Stay&) const = default;
  };
  std::vector<Stay> stays_;  // by layer; those of embedding and head mean nothing
  std::vector<Range> kept_alike_;
  RegionBytes kept_{}, recomputed_{};
};

/// Throws InputError for parameters that contradict each other or the workload.
void check_policy_input(const PolicyInput& input);

}  // namespace penstock
