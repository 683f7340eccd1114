// Brings weights to the GPU: which slot holds which layer at each visit, and when the loads are written.
//
// Decoder layers share a ring of `weight_buffers` slots. The load of a visit is written weight_buffers - 1 visits
// ahead, right after the first compute op of the visit then running; the slot taken is one that no visit in between
// needs, and among those the one whose layer is needed last (its next visit lies farthest). What is still in a slot is
// not loaded again. Embedding and head share one more slot, and their loads are written one visit earlier, since that
// slot is not part of the ring; a tied head finds the embedding in it and has a small buffer for its norm. A resident
// layer whose optimizer runs on the host has a slot of its own, loaded once per step; one whose states are resident is
// never loaded. Weights that lie on NVMe are read into a ring of as many slots in DRAM first (embedding and head into a
// slot of their own), each read as soon as its slot has been uploaded.
#pragma once

#include <vector>

#include "shared/policy/writer.h"

namespace penstock {

class WeightStream {
 public:
  /// `homes`: where uploads find each layer's weights; on NVMe, what is read first.
  WeightStream(Writer& writer, const std::vector<Place>& homes);

  /// At the start of the step: the load of the first visit; then those of the visits ahead.
  void start();
  void start_ahead();
  /// Before the first compute op of a visit: loads that must not be written earlier, and the launch thread's waits.
  void enter(int visit);
  /// After the first compute op of a visit: loads ahead.
  void after_first_op(int visit);
  /// Where the visit's weights are: its own layer's first, then layer 0's for a tied head.
  std::vector<Access> reads(int visit) const;

 private:
  struct Slot {
    Place place;
    int layer = -1;       // what it holds behind the op written last
    int last_visit = -1;  // that needs it
    int last_load = -1;   // op
  };
  struct Need {  // one layer's weights for one visit
    int layer = 0;
    bool is_placed = false;
    int slot = -1;  // once placed; -1: at home in HBM
    int load = -1;  // op; -1: it was there
  };

  void make_slots();
  void make_staging();
  void plan_needs();
  void place_needs(int visit, int through_ring, int through_edge);
  bool is_slot_taken(int visit, int layer) const;
  void place(int visit, int needing_visit, Need& need);
  int choose_ring_slot(int visit, int needing_visit) const;
  int next_use(int after_visit, int layer) const;
  void load(int needing_visit, Need& need, Slot& slot);
  Access stage(int layer, Phase phase);

  Writer& writer_;
  const Plan& plan_;
  std::vector<Place> homes_;
  std::vector<Slot> slots_;     // the ring first
  int ring_ = 0;                // slots of the ring
  std::vector<Place> staging_;  // ring in DRAM of decoder weights that come from NVMe
  Place edge_staging_;
  std::size_t next_staging_ = 0;
  std::vector<int> fixed_slot_;           // by layer: the slot that it always takes; -1: one of the ring, or home
  std::vector<std::vector<Need>> needs_;  // by visit
  std::vector<std::vector<int>> visits_of_layer_;  // ascending
};

}  // namespace penstock
