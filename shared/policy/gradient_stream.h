// Gradients from backward to where norm and optimizer find them.
//
// On the GPU sums: backward ops of a layer add into its sum; after the last micro-batch a finish op rounds it into the
// finished gradient (in place where the types agree) and takes its sum of squares; a copy takes it to DRAM unless it
// waits in HBM.
//   one group        a ring of gradient_slots decoder-sized sums (one sum and a ring of finished slabs where the types
//                    differ), and one for embedding and head together (two where they are tied: both live at once)
//   several groups   a sum per layer in HBM, or (gradient_sums) in DRAM or on NVMe: it comes back, grows, and leaves
//                    again
// A finished gradient that waits on NVMe lands in a ring of gradient_slots in DRAM and is written from there.
// Host sums: each micro-batch's gradient leaves through a ring as gradient_part; a host lane adds it up and finishes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/policy/drive_staging.h"
#include "shared/policy/writer.h"

namespace penstock {

class GradientStream {
 public:
  explicit GradientStream(Writer& writer);

  /// At the start of the step.
  void start();
  /// Before the first contribution of a visit, which must be the next one of the step: brings the sum so far back,
  /// where it waits elsewhere and is not on its way already.
  void enter(int layer, int group);
  /// After the first op of that visit: fetches sums of the visits ahead into slots that are free. A host that waits for
  /// each layer (HostWaits) does not look ahead.
  void after_first_op();
  /// Adds to a backward (or loss) op its gradient operands.
  void contribute(Op& op, int layer, int micro_batch);
  /// After that op: what follows for this micro-batch (host sums).
  void after_contribution(int layer, int micro_batch);
  /// After the last contribution of the visit.
  void leave(int layer, int group);

  /// The finished gradient where it waits for the norm, and its tier.
  Access finished(int layer) const;
  /// Where each layer's norm_partial is, for the step scalars; empty without clipping.
  std::vector<Access> norm_partials() const;
  /// Last op that brought layer's finished gradient to its place.
  int landed(int layer) const { return landed_[static_cast<std::size_t>(layer)]; }

 private:
  /// Decoder layers; embedding (and head, unless tied); head of a tied model.
  static constexpr int kClasses = 3;
  struct Ring {
    std::vector<Place> slots;
    std::size_t next = 0;
    Place take() { return slots[next++ % slots.size()]; }
  };
  using Rings = Ring[kClasses];

  void make_gpu_sums();
  void make_host_sums();
  void make_finished();
  void make_sum_staging();
  int class_of(int layer) const;
  void fill_rings(Rings& rings, const std::string& name, TierKind tier, int slots,
                  const std::function<bool(int)>& needs, const std::function<std::int64_t(int)>& bytes,
                  bool for_drive = false);
  bool has_own_sum(int layer) const;
  /// Whether its sum has a home outside of HBM.
  bool travels(int layer) const { return sums_travel() && !has_own_sum(layer); }
  bool sums_travel() const { return plan_.parameters.gradient_sums == TierKind::dram || plan_.sums_on_nvme(); }
  bool on_host() const { return plan_.parameters.numerics.sum_on_host; }
  int last_micro_batch() const { return plan_.turn(plan_.micro_batches - 1); }
  /// Of a group, the micro-batch that adds last.
  int last_of(int group) const {
    const Group& of = plan_.groups[static_cast<std::size_t>(group)];
    return plan_.turn(of.first + of.count - 1);
  }
  /// The access to what lies at `place` before micro-batch `micro_batch` adds to it; none: it is the first.
  std::optional<Access> sum_before(const Place& place, int layer, int micro_batch) const;
  Access sum(const Place& place, int layer, int micro_batch) const;
  Access gradient(const Place& place, int layer) const;
  Access partial(const Place& place, int layer) const;
  void place(int layer, int group);
  void finish(int layer);
  void send(int layer, const Access& from);
  void write_finish_op(int layer, const Place& target, const Place& partials);

  Writer& writer_;
  const Plan& plan_;
  std::vector<Place> sum_;       // by layer: own sum, or the slot of the visit
  std::vector<Place> home_sum_;  // by layer, in DRAM or on NVMe: sums that travel, host sums
  std::vector<Place> part_;      // by layer: slot of the gradient_part being made
  std::vector<Place> finished_;  // by layer: where the finished gradient waits
  std::vector<int> landed_;
  struct Contribution {  // a visit that adds to a gradient
    int layer = 0, group = 0;
    bool is_placed = false;
  };
  std::vector<Contribution> contributions_;  // in order
  std::size_t next_contribution_ = 0;
  Rings sums_, slabs_, parts_, landings_,
      arrivals_;  // slabs: finished, leaving; landings: parts in DRAM; arrivals: finished, in DRAM on their way
  /// On their way from and to NVMe, by class: what comes back does not wait for what leaves.
  DriveStaging coming_[kClasses], leaving_[kClasses];
  Place norm_hbm_, norm_dram_;
};

}  // namespace penstock
