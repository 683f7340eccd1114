// Where activations and their gradients lie, and the copies that take kept ones to DRAM or NVMe and bring them back.
//
// Buffers are made for one group of micro-batches and used again by the next. `position` counts within the group.
// Each layer's checkpoint and kept region lie where Plan::activations says.
//   checkpoint(l)   inputs that wait for backward: HBM, DRAM or NVMe
//   current         a ring for boundaries on their way to the next layer, one longer than the group, so that each op
//                   writes where the op before it has read; the gradients of the boundaries take the ring over at
//                   the loss
//   kept(l)         HBM, or elsewhere behind a ring of activation_slots; NVMe behind another such ring in DRAM
// Where keep_layers leaves the last layers in HBM, their places are the ring: what leaves HBM passes through them, and
// comes back into each as soon as backward has left it.
//   block           inputs that a block recompute makes again; recomputed: the regions that it fills
#pragma once

#include <vector>

#include "shared/policy/drive_staging.h"
#include "shared/policy/writer.h"

namespace penstock {

class ActivationStore {
 public:
  explicit ActivationStore(Writer& writer);

  /// At the start of the step.
  void start();
  void start_group(int group);

  const Place& workspace_place() const { return workspace_; }
  Access workspace(std::int64_t bytes) const { return Writer::access(workspace_, bytes, {}); }

  /// Forward: the layer's input, and places for its output and (if any) what it keeps.
  Access forward_input(int layer, int position) const;
  Access forward_output(int layer, int position);
  Access forward_kept(int layer, int position) const;
  /// Takes what the forward op (layer, position) left to where it waits, if that is not HBM.
  void evict(int layer, int position);

  /// Backward half: the copies that bring back what the op (layer, position) of this visit reads, and what those of the
  /// next activation_slots - 1 read. REQUIRES: ops in the order of the plan's visits.
  void fetch(int visit, int position);
  Access backward_input(int layer, int position) const;
  Access kept(int layer, int position) const;
  bool has_kept(int layer) const { return plan_.kept(layer) > 0; }
  /// Of a recompute op: its recomputed region and the next layer's input.
  Access recomputed(const Visit& visit, int position) const;
  Access recompute_output(const Visit& visit, int position) const;
  /// Gradient with respect to the input of `layer`; in place from layer to layer.
  Access boundary_gradient(int layer, int position) const;

 private:
  struct Use {  // one op (or recompute and backward) that reads what waited
    int visit = 0;
    int layer = 0;
    int position = 0;
    std::size_t arrival = 0;  // how many before it came from elsewhere; means nothing where this one does not
  };

  void make_checkpoints();
  void make_ring_and_regions();
  void make_staging();
  void plan_uses();
  void write_fetch(std::size_t use);
  bool travels(int layer) const { return plan_.activations(layer) != TierKind::hbm; }
  bool in_shared_ring(int layer) const { return shared_ > 0 && layer < plan_.head && travels(layer); }
  /// The layer among the last `shared_` through whose places `layer` passes; they pass through their own.
  std::size_t ring_layer(int layer) const;
  std::size_t slots() const {
    return shared_ > 0 ? static_cast<std::size_t>(shared_ * group_.count) : input_slots_.size();
  }
  int micro_batch(int position) const { return group_.first + position; }
  Access boundary(const Place& place, int layer, int position) const;
  /// Where a use of what came back finds its input and its kept region.
  Place input_place(int layer, int position, std::size_t arrival) const;
  Place kept_place(int layer, int position, std::size_t arrival) const;
  std::size_t arrival_in_use() const { return uses_[next_use_ - 1].arrival; }

  Writer& writer_;
  const Plan& plan_;
  Group group_;
  int group_index_ = 0;
  Place workspace_;
  std::vector<PlaceRow> checkpoints_, kept_;  // by layer
  int shared_ = 0;                            // last layers whose places are the ring; 0 = it has its own
  PlaceRow current_;                          // ring
  int ring_ = 0;                              // slots of it
  int next_current_ = 0;
  std::vector<int> current_of_;                  // by position: slot of the latest boundary
  std::vector<Place> input_slots_, kept_slots_;  // rings of activation_slots
  DriveStaging input_staging_, kept_staging_;
  int next_kept_slot_ = 0;
  std::vector<PlaceRow> block_inputs_, recomputed_;  // by index in block
  Place redo_recomputed_, redo_output_;
  std::vector<Use> uses_;
  std::size_t written_fetches_ = 0;  // uses whose copies are written
  std::size_t next_use_ = 0;         // first use that has not run
};

}  // namespace penstock
