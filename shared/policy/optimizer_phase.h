// Where the optimizer's states lie, the scalars of the step, the updates, and what waits for them.
//
// A layer is updated on the host, from DRAM to DRAM, or on the GPU: in place where its states are resident, else
// streamed through two slots (and one for embedding and head) on a compute lane of its own; at the end of the step
// these are bytes of the workspace, which no other op needs any more. A finished gradient that waits in the other tier
// crosses the link once more. What of a layer lies on NVMe is read into a slot of a ring in DRAM before its update on
// the host, and written back behind it. A single slot stands for a system that reads, updates and writes one after the
// other: nothing of a layer is read before all of the layer before it is written.
#pragma once

#include <vector>

#include "shared/policy/gradient_stream.h"
#include "shared/policy/step_inputs.h"
#include "shared/policy/writer.h"

namespace penstock {

class OptimizerPhase {
 public:
  /// `workspace`: of the template ops, where update slots may lie in it (Plan::update_slots_in_workspace).
  OptimizerPhase(Writer& writer, GradientStream& gradients, const Place& workspace);

  /// Whence each layer's weights go to the GPU, by layer: their state, or its upload copy.
  std::vector<Place> upload_places() const;

  /// At the start of the step: without clipping, the scalars depend on nothing but its inputs.
  void start(const StepInputs& inputs);
  /// optimizer_time = backward: the layer's gradient has just landed.
  void gradient_landed(int layer);
  /// Behind the last backward op of the step.
  void finish(const StepInputs& inputs);

  /// The scalars where the host reads them. REQUIRES: finish() or start() wrote them.
  Access host_scalars() const;

 private:
  void make_states();
  void make_slots(const Place& workspace);
  void make_nvme_slots();
  void write_scalars(const StepInputs& inputs);
  void write_host_passes();
  void update_in_order();
  void update(int layer);
  void load(int layer);
  void read_nvme(int layer);
  void write_nvme(int layer);
  void write_update(int layer);
  bool streams(int layer) const { return plan_.states_stream(layer); }
  bool gradient_returns(int layer) const { return plan_.gradient_returns(layer); }
  bool needs_slot(int layer) const { return streams(layer) || gradient_returns(layer); }
  bool is_on_nvme(int layer, std::size_t index) const {
    return plan_.state_home(layer, tensors_[index].tensor) == TierKind::nvme;
  }
  bool gradient_on_nvme(int layer) const { return plan_.gradient_home(layer) == TierKind::nvme; }
  /// Bytes of the layer's slot up to the state tensor `index`; tensors_.size(): up to the gradient.
  std::int64_t nvme_slot_bytes(int layer, std::size_t index) const;
  Place in_nvme_slot(int layer, std::size_t index) const;
  Place& home(int layer, std::size_t index) {
    return states_[static_cast<std::size_t>(layer) * tensors_.size() + index];
  }
  const Place& home(int layer, std::size_t index) const {
    return states_[static_cast<std::size_t>(layer) * tensors_.size() + index];
  }
  /// Where the update finds a state that does not stream through the GPU.
  Place reachable_state(int layer, std::size_t index) const;
  Access state(const Place& place, int layer, const Plan::StateTensor& tensor, int version) const;
  /// Places within the layer's slot: streamed states, and behind them a gradient that comes back from DRAM.
  Place state_in_slot(int layer, std::size_t index) const;
  Place gradient_in_slot(int layer) const { return state_in_slot(layer, streams(layer) ? tensors_.size() : 0); }
  void order_serially(int begin, int last_compute);

  Writer& writer_;
  const Plan& plan_;
  GradientStream& gradients_;
  std::vector<Plan::StateTensor> tensors_;
  std::vector<Place> states_;         // [layer, tensor], at home
  std::vector<Place> upload_copies_;  // by layer; none: uploads read the state itself
  std::vector<Place> slots_;          // decoder, decoder, edge; streamed states
  std::vector<Place> slabs_;          // decoder, decoder, edge; DRAM, gradients that waited in HBM
  std::vector<Place> slot_of_;        // by layer
  std::vector<Place> nvme_slots_;     // ring in DRAM
  std::vector<Place> nvme_slot_of_;   // by layer
  int next_slot_ = 0, next_slab_ = 0;
  std::size_t next_nvme_slot_ = 0;
  int last_nvme_write_ = -1;  // op
  Place scalars_hbm_, scalars_dram_;
};

}  // namespace penstock
