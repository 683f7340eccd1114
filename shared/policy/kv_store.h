// Where keys and values of sequences that are cut lie, and their gradient; nothing of it where none is cut.
//
// A layer's chunks of one sequence lie one behind the other in HBM while its ops run: in the layer's own place where
// its activations wait in HBM, else in a ring of two slots, from which each chunk leaves for its home as soon as forward
// has made it, and into which all come back for each visit that attends again. They come in the order in which the ops
// before free the slot, so that one slot alone costs little.
//
// Their gradient (fp32) has one place: it is complete, and gone, with the last op of a layer's visit to a sequence.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/policy/drive_staging.h"
#include "shared/policy/writer.h"

namespace penstock {

class KvStore {
 public:
  explicit KvStore(Writer& writer);

  /// At the start of the step.
  void start();
  /// Before the `index`-th op of a visit: where it begins a sequence, brings keys and values back that wait elsewhere.
  /// REQUIRES: visits and ops in the plan's order.
  void enter(int visit, int index);

  /// What the op (layer, micro_batch) makes, and the chunks before it, up to and with its own if `with_own`.
  Access made(int layer, int micro_batch) const { return access(TensorKind::kv, place(layer), layer, micro_batch); }
  void add_reads(Op& op, int layer, int micro_batch, bool with_own) const;
  /// The gradients that its backward adds to.
  void add_gradients(Op& op, int layer, int micro_batch) const;
  /// Takes what forward made to where it waits for backward, if that is not HBM.
  void evict(int layer, int micro_batch);

 private:
  struct Use {                            // of a slot, by one visit to one sequence
    int visit = 0, layer = 0, first = 0;  // first: micro-batch
    bool fetches = false;
  };

  /// Whether the layer has a place of its own in HBM.
  bool stays(int layer) const { return plan_.has_backward(layer) && plan_.activations(layer) == TierKind::hbm; }
  Place place(int layer) const;
  /// The chunk `micro_batch` of what lies at `sequence`.
  Access access(TensorKind tensor, const Place& sequence, int layer, int micro_batch) const;
  Access home(int layer, int micro_batch) const;
  void write_fetch(std::size_t use);

  Writer& writer_;
  const Plan& plan_;
  std::vector<PlaceRow> own_, homes_;  // by layer; of the sequences, and the micro-batches, of a group
  std::vector<Place> slots_;
  Place gradient_;
  DriveStaging staging_;
  std::vector<Use> uses_;
  std::size_t next_use_ = 0, written_fetches_ = 0;
  int group_first_ = 0;  // micro-batch, of the group whose ops are being written
  int sequence_ = 0;     // of the group
};

}  // namespace penstock
