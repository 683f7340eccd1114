// Which ops of a step write a layer's states where a checkpoint reads them (StateReader), and in which order: the order
// of a checkpoint's files, so that they can be written while a step updates what has been.
#pragma once

#include <span>
#include <vector>

#include "shared/ir/schedule.h"
#include "shared/model/model.h"

namespace penstock::exec {

struct StateUpdates {
  // All layers: those with states on the GPU, which a checkpoint reads between steps alone; then the others as they are
  // updated, by the first op that does; then what nothing updates. The same for every run of a schedule.
  std::vector<int> order;
  int on_gpu = 0;                        // that many of them have states on the GPU
  std::vector<int> first_op;             // by layer: the first op that writes its states; -1: none does
  std::vector<std::vector<int>> layers;  // by op: whose states it writes
};

/// The place of a state: a state that lies on the GPU and in another tier is read from that one. nullptr: none.
const Access* state_place(const Schedule& schedule, TensorKind tensor, int layer);

StateUpdates state_updates(const Schedule& schedule, const Model& model);

/// How long training waits while the layers are written in that order from a step's begin on: for all on the GPU, and
/// then as long as the latest of the others is written after the step would update it. By layer: the seconds that it is
/// written in, and after which a step updates it first.
double stall_of_save(const StateUpdates& updates, std::span<const double> write_seconds,
                     std::span<const double> update_seconds);

}  // namespace penstock::exec
